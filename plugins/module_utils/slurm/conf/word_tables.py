# The words of those options in slurm.conf in which Slurm looks for words and ignores all others, by version.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Data for words.py: which words SchedulerParameters and the like have in Slurm 22.05 to 26.05.

Source: the release branches slurm-22.05 to slurm-26.05 of https://github.com/SchedMD/slurm: the words that
slurm.conf(5) has below each option, and those that the code looks for in it without a word in the manual. A word with
a value is here without it. Not here: SwitchParameters and JobCompParams, whose words are names of other systems, and
TaskPluginParam, of which Slurm refuses unknown words itself.
"""

from __future__ import annotations

_CONMGR = (
    " conmgr_connect_timeout:24.11- conmgr_max_connections:24.11- conmgr_quiesce_timeout:25.05-"
    " conmgr_read_timeout:24.11- conmgr_threads:24.11- conmgr_use_poll:24.11- conmgr_wait_write_delay:24.11-"
    " conmgr_write_timeout:24.11-"
)

#: Option -> its words, with their releases as in value_tables.CHOICES.
WORDS: dict[str, str] = {
    "AuthAltParameters": """
        disable_token_creation jwks jwt_key max_token_lifespan userclaimfield
        use_jwt_client_ids:26.05- use_jwt_client_ids_only:26.05-
    """,
    "AuthInfo": "cred_expire disable_sack:23.11- socket ttl use_client_ids:23.11- userclaimfield",
    "BcastParameters": "Compression DestDir send_libs",
    "CommunicationParameters": """
        block_null_hash block_zero_hash CheckGhalQuiesce:-23.11 disable_http:25.11- DisableIPv4 EnableIPv6
        getnameinfo_cache_timeout:23.02- host_unreach_retry_count:25.05- keepaliveinterval keepaliveprobes keepalivetime
        NoAddrCache NoCtldInAddrAny NoInAddrAny
    """,
    "DependencyParameters": "disable_remote_singleton kill_invalid_depend max_depend_depth",
    "FederationParameters": "fed_display",
    "JobAcctGatherParams": """
        DisableGPUAcct:23.02- no_file_cache:25.11- NoShare NoShared OverMemoryKill UsePss
    """,
    "LaunchParameters": """
        batch_step_set_cpu_freq cray_net_exclusive disable_send_gids enable_nss_slurm
        interactive_step_set_cpu_freq:25.11- lustre_no_flush mem_sort:-25.11 mpir_use_nodeaddr slurmstepd_memlock
        slurmstepd_memlock_all srun_exclusive_allocation:26.05- test_exec ulimit_pam_adopt:23.02- use_interactive_step
    """,
    "MpiParams": "disable_slurm_hydra_bootstrap:24.05- ports",
    "PreemptParameters": """
        min_exempt_priority reclaim_licenses reorder_count send_user_signal strict_order suspend_grace_time:23.11-
        youngest_first
    """,
    "SchedulerParameters": """
        allow_zero_lic assoc_limit_stop batch_sched_delay bb_array_stage_cnt bf_allow_magnetic_slot:24.11- bf_busy_nodes
        bf_continue bf_hetjob_immediate bf_hetjob_prio bf_interval bf_job_part_count_reserve bf_licenses
        bf_max_job_array_resv bf_max_job_assoc bf_max_job_part bf_max_job_start bf_max_job_test bf_max_job_user
        bf_max_job_user_part bf_max_time bf_min_age_reserve bf_min_prio_reserve bf_node_space_size bf_one_resv_per_job
        bf_resolution bf_running_job_reserve bf_topopt_enable:24.11- bf_topopt_iterations:24.11- bf_window
        bf_window_linear bf_yield_interval bf_yield_rpc_cnt:25.05- bf_yield_rpc_count:25.05- bf_yield_sleep
        build_queue_timeout correspond_after_task_cnt default_queue_depth defer defer_batch:23.02- delay_boot
        disable_hetero_steps disable_hetjob_steps disable_job_shrink enable_hetjob_steps enable_hetero_steps
        enable_job_state_cache:23.11-25.11 enable_user_top extra_constraints:23.11- Ignore_NUMA
        ignore_constraint_validation:24.11- ignore_prefer_validation interval jobs_per_user_per_hour max_array_tasks
        max_job_bf max_rpc_cnt max_rpc_count max_sched_time max_script_size max_submit_line_size:23.11- max_switch_wait
        no_backup_scheduling no_env_cache:-24.11 nohold_on_prolog_fail pack_serial_at_end partition_job_depth
        permit_job_expansion preempt_reorder_count preempt_strict_order preempt_youngest_first reduce_completing_frag
        requeue_delay:25.11- requeue_on_resume_failure:25.05- requeue_setup_env_fail:-24.11 salloc_wait_nodes
        sbatch_wait_nodes sched_interval sched_max_job_start sched_min_interval spec_cores_first step_retry_count
        step_retry_time time_min_as_soft_limit:23.11- whole_hetjob whole_pack
    """,
    "ScronParameters": "enable explicit_scancel:23.02-",
    "SlurmctldParameters": """
        allow_user_triggers cloud_dns cloud_reg_addrs disable_triggers:23.11- enable_async_reply:25.11-
        enable_configless enable_expedited_requeue:25.11- enable_job_state_cache:23.11-23.11 enable_rpc_queue
        enable_stepmgr:24.05- health_check_report:26.05- idle_on_node_suspend max_dbd_msg_action
        max_powered_nodes:24.05- no_quick_restart:23.11- node_reg_mem_percent power_save_interval
        power_save_min_interval preempt_send_user_signal reboot_from_controller reconfig_on_restart:25.11-
        rl_bucket_size:23.02- rl_enable:23.02- rl_log_freq:23.11- rl_refill_period:23.02- rl_refill_rate:23.02-
        rl_table_size:23.02- user_resv_delete validate_nodeaddr_threads:23.02-
    """
    + _CONMGR,
    "SlurmdParameters": """
        allow_ecores:23.02- config_override config_overrides contain_spank:24.05- l3cache_as_socket numa_node_as_socket
        shutdown_on_reboot
    """
    + _CONMGR,
    "TopologyParam": """
        BlockAsNodeRank:25.11- Dragonfly RoutePart:23.11- RouteTree:23.11- SwitchAsNodeRank:23.02-
        TopoMaxSizeUnroll:24.11- TopoOptional
    """,
    "X11Parameters": "home_xauthority",
}
