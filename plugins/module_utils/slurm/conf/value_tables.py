# The types, choices and plugins of the options in Slurm's configuration files, by version.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Data about the values of slurm.conf and cgroup.conf for Slurm 22.05 to 26.05; parameters.py has the names.

Source: the release branches slurm-22.05 to slurm-26.05 of https://github.com/SchedMD/slurm. Types are those of the
tables that the parser reads the files with (src/common/read_config.c, src/interfaces/cgroup.c), which do not differ
between these releases. Choices are the words that _parse_partitionname and _validate_and_set_defaults of
read_config.c compare with; slurm.conf(5) explains them. Plugins are the directories of src/plugins.
"""

from __future__ import annotations

#: Type -> options of slurm.conf (also those of partition and node lines) and cgroup.conf that have it.
TYPES: dict[str, str] = {
    "uint16": """
        AccountingStoragePort AcctGatherNodeFreq BatchStartTimeout Boards CompleteWait CoreSpecCount CoresPerSocket
        CPUs EioTimeout EpilogTimeout ExtSensorsFreq FairShareDampeningFactor FastSchedule GetEnvTimeout
        GroupUpdateForce GroupUpdateTime HealthCheckInterval HealthCheckTimeout InactiveLimit JobFileAppend JobRequeue
        KillOnBadExit KillWait MaxTasksPerNode MessageTimeout OverTimeLimit Priority PriorityJobFactor PriorityTier
        PrologEpilogTimeout PrologTimeout PropagatePrioProcess RestrictedCoresPerGPU ResumeRate ResumeTimeout
        ResvOverRun ReturnToService SchedulerTimeSlice SlurmctldTimeout SlurmdTimeout SlurmSchedLogLevel Sockets
        SocketsPerBoard SuspendRate SuspendTimeout TCPTimeout ThreadsPerCore TreeWidth UnkillableStepTimeout
        VSizeFactor WaitTime
    """,
    "uint32": """
        EpilogMsgTime FirstJobId GraceTime JobCompPort KeepAliveTime MaxArraySize MaxBatchRequeue MaxCPUsPerNode
        MaxCPUsPerSocket MaxDBDMsgs MaxJobCount MaxJobId MaxNodeCount MaxNodes MaxStepCount MinJobAge MinNodes
        PriorityWeightAge PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
        PriorityWeightQOS SlurmdPort TmpDisk Weight
    """,
    "uint64": """
        DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode MaxMemPerCPU MaxMemPerNode MemorySwappiness MemSpecLimit
        MinRAMSpace RealMemory SystemdTimeout
    """,
    "float": "AllowedRAMSpace AllowedSwapSpace MaxRAMPercent MaxSwapPercent MemoryLimitThreshold",
    "boolean": """
        AccountingStoreJobComment AllowSpecResourcesUsage Default DisableRootJobs EnableControllers ExclusiveTopo
        ExclusiveUser Hidden IgnoreSystemd IgnoreSystemdOnFailure LLN MemoryLimitEnforcement PowerDownOnIdle
        PriorityFavorSmall ReqResv RootOnly SignalChildrenProcesses TrackWCKey UsePAM
        CgroupAutomount ConstrainCores ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace
    """,
    # Minutes, or days-hours:minutes:seconds (time_str2mins in src/common/parse_time.c).
    "time": """
        DefaultTime MaxTime PreemptExemptTime PriorityCalcPeriod PriorityDecayHalfLife PriorityMaxAge
    """,
}
#: The same of slurmdbd.conf (src/slurmdbd/read_config.c); "purge" is a number and hours, days or months.
TYPES_OF_SLURMDBD: dict[str, str] = {
    "uint16": "CommitDelay DbdPort MessageTimeout StoragePort TCPTimeout",
    "uint32": """
        JobPurge MaxPurgeLimit PurgeEventMonths PurgeJobMonths PurgeStepMonths PurgeSuspendMonths PurgeTXNMonths
        PurgeUsageMonths StepPurge
    """,
    "boolean": """
        AllowNoDefAcct AllResourcesAbsolute ArchiveEvents ArchiveJobEnv ArchiveJobs ArchiveJobScript ArchiveResvs
        ArchiveSteps ArchiveSuspend ArchiveTXN ArchiveUsage DisableArchiveCommands DisableCoordDBD DisableRollups
        TrackSlurmctldDown TrackWCKey
    """,
    "time": "MaxQueryTimeRange",
    "purge": """
        PurgeEventAfter PurgeJobAfter PurgeJobEnvAfter PurgeJobScriptAfter PurgeResvAfter PurgeStepAfter
        PurgeSuspendAfter PurgeTXNAfter PurgeUsageAfter
    """,
    "path": "ArchiveDir ArchiveScript LogFile PidFile StoragePassScript",
}
#: Options of slurm.conf that are an absolute path. Prolog and the like may also be below the configuration.
PATHS = """
    HealthCheckProgram MailProg RebootProgram ResumeFailProgram ResumeProgram SlurmctldLogFile
    SlurmctldPidFile SlurmdLogFile SlurmdPidFile SlurmSchedLogFile SuspendProgram TmpFS UnkillableStepProgram
"""
#: Numbers with narrower limits than their type has (validate of read_config.c).
RANGES: dict[str, tuple[int, int]] = {
    "FairShareDampeningFactor": (1, 65535),
    "MaxArraySize": (0, 4000001),
    "ReturnToService": (0, 2),
}
#: The resources that every cluster counts (DEFAULT_ACCOUNTING_TRES in read_config.h), and the kinds of others.
TRES = ("cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages")
TRES_KINDS = ("gres", "license", "bb", "fs", "ic", "interconnect")
#: Options that are lists of resources, and those of resources with a weight each.
TRES_NAMES = "AccountingStorageTRES"
TRES_WEIGHTS = "PriorityWeightTRES TRESBillingWeights TRESWeights"
#: An option of a partition's line that is text, while the same name elsewhere is a number.
TEXT_IN_PARTITIONS = ("OverTimeLimit", "SuspendTime")

_LOG = "quiet fatal error info verbose debug debug2 debug3 debug4 debug5 0 1 2 3 4 5 6 7 8 9"
# debug_str2flags of read_config.c, which refuses other words.
_DEBUG = (
    "Accrue Agent AuditRPCs:24.05- AuditTLS:25.05- Backfill BackfillMap BurstBuffer Cgroup ConMgr:24.11- CPU_Bind"
    " CpuFrequency Data DB_Archive DB_Assoc DB_Event DB_Job DB_QOS DB_Query DB_Reservation DB_Resource DB_Step DB_TRES"
    " DB_Usage DB_WCKey DBD_Agent:24.05- Dependency Elasticsearch Energy ExtSensors:-23.11 Federation FrontEnd:-24.11"
    " Gang GLOB_SILENCE:23.11- Gres Hetjob Interconnect JAG JobAccountGather JobComp:23.02- JobContainer License"
    " Metrics:25.11- MPI Namespace:25.11- Net NetRaw Network NetworkRaw NO_CONF_HASH NodeFeatures Power PowerSave"
    " Priority Profile Protocol Reservation Route Sack:23.11- Script SelectType Steps Switch Task thread:26.05-"
    " threads:26.05- TimeCray:-23.11 TLS:24.05- TraceJobs Trigger Triggers WorkQ WorkQueue"
)
_CONSUMABLE = "CR_Core CR_Core_Memory CR_Socket CR_Socket_Memory"
_TIME_FORMATS = "iso8601 iso8601_ms rfc5424 rfc5424_ms rfc3339:23.02- clock short thread_id format_stderr:23.11-"
_LIMITS = "ALL NONE AS CORE CPU DATA FSIZE MEMLOCK NOFILE NPROC RSS STACK"
# Slurm looks for a part of the word: job and jobs are the same.
_PRIVATE = " ".join(
    f"{word}s {word}"
    for word in ("account", "event", "job", "node", "partition", "reservation", "user")
)
_PRIVATE += " usage all none cloud"
_PREEMPT = "off cluster cancel requeue on suspend gang within priority:25.05-"

#: (file or kind of line, option) -> its words, and how they are written. A word may have its releases behind it:
#: "priority:25.05-" is one from 25.05 on, "a:-23.02" one until 23.02. How: one of "word", "words" (a list with
#: commas) and "number" (a word that may have a number behind a colon).
CHOICES: dict[tuple[str, str], tuple[str, str]] = {
    ("PartitionName", "State"): ("UP DOWN DRAIN INACTIVE", "word"),
    ("PartitionName", "OverSubscribe"): ("NO EXCLUSIVE YES FORCE", "number"),
    ("PartitionName", "Shared"): ("NO EXCLUSIVE YES FORCE", "number"),
    ("PartitionName", "PreemptMode"): (_PREEMPT, "words"),
    ("PartitionName", "SelectTypeParameters"): (_CONSUMABLE, "word"),
    ("NodeName", "CpuBind"): (
        "none no socket sockets ldom ldoms core cores thread threads off",
        "word",
    ),
    ("NodeName", "State"): (
        "CLOUD DOWN DRAIN FAIL DRAINED DRAINING FAILING FUTURE IDLE UNKNOWN EXTERNAL:25.05-",
        "word",
    ),
    ("slurm.conf", "AccountingStorageEnforce"): (
        "associations limits nojobs nosteps qos safe wckeys all none 0 1 2",
        "words",
    ),
    ("slurm.conf", "AccountingStoreFlags"): (
        "job_comment job_env job_script job_extra:23.02- no_stdio:24.05-",
        "words",
    ),
    ("slurm.conf", "DebugFlags"): (_DEBUG, "words"),
    ("slurm.conf", "HealthCheckNodeState"): (
        "ALLOC ANY CYCLE IDLE MIXED NONDRAINED_IDLE:23.02- START_ONLY:25.11-",
        "words",
    ),
    ("slurm.conf", "LogTimeFormat"): (_TIME_FORMATS, "words"),
    ("slurm.conf", "PriorityFlags"): (
        "ACCRUE_ALWAYS CALCULATE_RUNNING DEPTH_OBLIVIOUS FAIR_TREE INCR_ONLY MAX_TRES MAX_TRES_GRES NO_FAIR_TREE"
        " NO_NORMAL_ALL NO_NORMAL_ASSOC NO_NORMAL_PART NO_NORMAL_QOS NO_NORMAL_TRES SMALL_RELATIVE_TO_TIME",
        "words",
    ),
    ("slurm.conf", "PrivateData"): (_PRIVATE, "words"),
    ("slurm.conf", "PropagateResourceLimits"): (_LIMITS, "words"),
    ("slurm.conf", "PropagateResourceLimitsExcept"): (_LIMITS, "words"),
    ("slurmdbd.conf", "DebugFlags"): (_DEBUG, "words"),
    ("slurmdbd.conf", "DebugLevel"): (_LOG, "word"),
    ("slurmdbd.conf", "DebugLevelSyslog"): (_LOG, "word"),
    ("slurmdbd.conf", "LogTimeFormat"): (_TIME_FORMATS, "words"),
    ("slurmdbd.conf", "PrivateData"): (_PRIVATE, "words"),
    ("slurmdbd.conf", "StorageType"): (
        "accounting_storage/mysql accounting_storage/as_mysql",
        "word",
    ),
    ("slurm.conf", "PreemptMode"): (_PREEMPT, "words"),
    ("slurm.conf", "EnforcePartLimits"): ("ALL ANY yes up true 1 no down false 0", "word"),
    ("slurm.conf", "PriorityUsageResetPeriod"): (
        "none now daily weekly monthly quarterly yearly",
        "word",
    ),
    ("slurm.conf", "PrologFlags"): (
        "Alloc Contain DeferBatch NoHold Serial X11 ForceRequeueOnFail:23.02- RunInJob:24.05-",
        "words",
    ),
    ("slurm.conf", "SelectTypeParameters"): (
        f"{_CONSUMABLE} CR_CPU CR_CPU_Memory CR_Memory CR_ONE_TASK_PER_CORE CR_CORE_DEFAULT_DIST_BLOCK CR_LLN"
        " CR_PACK_NODES CR_ALLOCATE_FULL_SOCKET:-22.05 other_cons_res:-23.11 other_cons_tres:-23.11"
        " LL_SHARED_GRES:23.11- MULTIPLE_SHARING_GRES_PJ:23.11- ENFORCE_BINDING_GRES:23.11-"
        " ONE_TASK_PER_SHARING_GRES:23.11-"
        " CR_NO_DIST_TOPO_BLOCK:26.05-",
        "words",
    ),
    ("slurm.conf", "SlurmctldDebug"): (_LOG, "word"),
    ("slurm.conf", "SlurmdDebug"): (_LOG, "word"),
    ("slurm.conf", "SlurmctldSyslogDebug"): (_LOG, "word"),
    ("slurm.conf", "SlurmdSyslogDebug"): (_LOG, "word"),
    # plugin_context_create looks for the file of any other name.
    ("cgroup.conf", "CgroupPlugin"): ("autodetect cgroup/v1 cgroup/v2 disabled:24.05-", "word"),
}

#: The options of slurm.conf that name plugins: option -> (kind, whether it takes several). A value is kind/name, and
#: for those in SHORT the name alone as well.
PLUGIN_OPTIONS: dict[str, tuple[str, bool]] = {
    "AccountingStorageType": ("accounting_storage", False),
    "AcctGatherEnergyType": ("acct_gather_energy", True),
    "AcctGatherFilesystemType": ("acct_gather_filesystem", False),
    "AcctGatherInterconnectType": ("acct_gather_interconnect", True),
    "AcctGatherProfileType": ("acct_gather_profile", False),
    "AuthAltTypes": ("auth", True),
    "BurstBufferType": ("burst_buffer", False),
    "CliFilterPlugins": ("cli_filter", True),
    "HashPlugin": ("hash", False),
    "JobAcctGatherType": ("jobacct_gather", False),
    "JobCompType": ("jobcomp", False),
    "JobContainerType": ("job_container", False),
    "JobSubmitPlugins": ("job_submit", True),
    "MCSPlugin": ("mcs", False),
    "MpiDefault": ("mpi", False),
    "NamespaceType": ("namespace", False),
    "NodeFeaturesPlugins": ("node_features", True),
    "PreemptType": ("preempt", False),
    "PrEpPlugins": ("prep", True),
    "PriorityType": ("priority", False),
    "ProctrackType": ("proctrack", False),
    "SchedulerType": ("sched", False),
    "SelectType": ("select", False),
    "SwitchType": ("switch", False),
    "TaskPlugin": ("task", True),
    "TLSType": ("tls", False),
    "TopologyPlugin": ("topology", False),
}
#: Kinds whose options take the name without the kind.
SHORT = (
    *(
        "acct_gather_energy",
        "acct_gather_interconnect",
        "auth",
        "burst_buffer",
        "cli_filter",
        "hash",
    ),
    *("job_container", "job_submit", "mpi", "namespace", "node_features", "prep", "task", "tls"),
)

#: The plugins of each kind, with their releases as in CHOICES. "none" is allowed for every kind that
#: may be left out, though newer releases do without its file.
PLUGINS: dict[str, str] = {
    "accounting_storage": "slurmdbd none ctld_relay:24.05-",
    "acct_gather_energy": "gpu ibmaem ipmi none pm_counters rapl xcc",
    "acct_gather_filesystem": "lustre none",
    "acct_gather_interconnect": "ofed sysfs none",
    "acct_gather_profile": "hdf5 influxdb none",
    "auth": "jwt munge none slurm:23.11-",
    "burst_buffer": "datawarp lua none",
    "cli_filter": "lua none syslog user_defaults",
    "hash": "k12 sha3:24.05-",
    "jobacct_gather": "cgroup linux none",
    "jobcomp": "elasticsearch filetxt kafka:23.02- lua mysql none script",
    # From 25.11 the plugins are those of namespace, and both names of the option take them.
    "job_container": "tmpfs none cncu:-23.11",
    "job_submit": "all_partitions defaults logging lua none partition pbs require_timelimit throttle"
    " cray_aries:-23.11",
    "mcs": "account group label:24.11- none user",
    "mpi": "cray_shasta none pmi2 pmix",
    "namespace": "linux:25.11- tmpfs:25.11- none:25.11-",
    "node_features": "helpers knl_cray:-23.11 knl_generic:-25.05 none",
    "preempt": "none partition_prio qos",
    "prep": "script",
    "priority": "basic multifactor",
    "proctrack": "cgroup linuxproc pgid cray_aries:-23.11",
    "sched": "backfill builtin",
    "select": "cons_res:-23.02 cons_tres linear cray_aries:-23.11",
    "switch": "hpe_slingshot none nvidia_imex:24.05- cray_aries:-23.11",
    "task": "affinity cgroup none cray_aries:-23.11",
    "tls": "none:24.05- s2n:24.05-",
    "topology": "default flat:25.05- none tree 3d_torus:-24.11 hypercube:-23.02 block:23.11-"
    " ring:26.05- torus3d:26.05-",
}

#: Options that are lists of words, in which a site's words join those of the collection; with a word that is Slurm's
#: key=value, the site's value counts. NEEDED are those without which a part of the collection does not work.
JOINED = (
    *(
        "AccountingStorageTRES",
        "AuthAltParameters",
        "AuthAltTypes",
        "GresTypes",
        "LaunchParameters",
    ),
    *("PrologFlags", "SlurmctldParameters", "SlurmdParameters"),
)
NEEDED = {
    "AuthAltParameters": "tokens need its jwt_key",
    "AuthAltTypes": "tokens need auth/jwt",
    "GresTypes": "the nodes' resources are in it",
    "PrologFlags": "SSH sessions on nodes need its Contain",
    "SlurmctldParameters": "the nodes get their configuration by its enable_configless",
}

#: Options of slurm.conf that name programs -> the groups of hosts that run them.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "Epilog": ("slurm_compute",),
    "EpilogSlurmctld": ("slurm_controller",),
    "HealthCheckProgram": ("slurm_compute",),
    "MailProg": ("slurm_controller",),
    "Prolog": ("slurm_compute",),
    "PrologSlurmctld": ("slurm_controller",),
    "RebootProgram": ("slurm_compute",),
    "ResumeFailProgram": ("slurm_controller",),
    "ResumeProgram": ("slurm_controller",),
    "ResvEpilog": ("slurm_controller",),
    "ResvProlog": ("slurm_controller",),
    "SrunEpilog": ("slurm_compute", "slurm_login"),
    "SrunProlog": ("slurm_compute", "slurm_login"),
    "SuspendProgram": ("slurm_controller",),
    "TaskEpilog": ("slurm_compute",),
    "TaskProlog": ("slurm_compute",),
    "UnkillableStepProgram": ("slurm_compute",),
}
