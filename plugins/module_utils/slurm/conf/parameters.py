# The options of Slurm's configuration files, by version, and the action that a change of each needs.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Data about slurm.conf, cgroup.conf, gres.conf and slurmdbd.conf for Slurm 22.05 to 26.05.

Source of the option names: the tables that Slurm's own parser reads the files with, at the release
branches slurm-22.05 to slurm-26.05 of https://github.com/SchedMD/slurm (slurm_conf_options,
_nodename_options, _partition_options, _nodeset_options and _downnodes_options of
src/common/read_config.c, options of src/interfaces/cgroup.c (src/common/cgroup.c in 22.05),
_gres_options of src/interfaces/gres.c (src/common/gres.c) and options of
src/slurmdbd/read_config.c). The three versions that Debian ships (22.05.8, 24.11.5, 26.05.5) were
held against the strings of their libslurmfull.so.
"""

from __future__ import annotations

#: Options that every release of releases.KNOWN knows, by file; the lines of slurm.conf that describe
#: nodes, partitions, node sets and down nodes are files of their own here.
ALWAYS: dict[str, tuple[str, ...]] = {
    "slurm.conf": tuple(
        """
        AccountingStorageBackupHost AccountingStorageEnforce AccountingStorageExternalHost
        AccountingStorageHost AccountingStorageParameters AccountingStoragePass
        AccountingStoragePort AccountingStorageTRES AccountingStorageType
        AccountingStorageUser AccountingStoreFlags AccountingStoreJobComment
        AcctGatherEnergyType AcctGatherFilesystemType AcctGatherInfinibandType
        AcctGatherInterconnectType AcctGatherNodeFreq AcctGatherProfileType
        AllowSpecResourcesUsage AuthAltParameters AuthAltTypes AuthInfo AuthType BackupAddr
        BackupController BatchStartTimeout BcastExclude BcastParameters
        BurstBufferParameters BurstBufferType CliFilterPlugins ClusterName
        CommunicationParameters CompleteWait ControlAddr ControlMachine CoreSpecPlugin
        CpuFreqDef CpuFreqGovernors CredType CryptoType DebugFlags DefCPUPerGPU DefMemPerCPU
        DefMemPerGPU DefMemPerNode DependencyParameters DisableRootJobs DownNodes EioTimeout
        EnforcePartLimits Epilog EpilogMsgTime EpilogSlurmctld ExtSensorsFreq ExtSensorsType
        FairShareDampeningFactor FastSchedule FederationParameters FirstJobId GetEnvTimeout
        GpuFreqDef GresTypes GroupUpdateForce GroupUpdateTime HealthCheckInterval
        HealthCheckNodeState HealthCheckProgram InactiveLimit InteractiveStepOptions
        JobAcctGatherFrequency JobAcctGatherParams JobAcctGatherType JobCompHost JobCompLoc
        JobCompParams JobCompPass JobCompPort JobCompType JobCompUser JobContainerType
        JobCredentialPrivateKey JobCredentialPublicCertificate JobFileAppend JobRequeue
        JobSubmitPlugins KeepAliveTime KillOnBadExit KillWait LaunchParameters LaunchType
        Licenses LogTimeFormat MailDomain MailProg MaxArraySize MaxDBDMsgs MaxJobCount
        MaxJobId MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode
        MCSParameters MCSPlugin MessageTimeout MinJobAge MpiDefault MpiParams
        NodeFeaturesPlugins NodeName NodeSet OverTimeLimit PartitionName PluginDir
        PlugStackConfig PowerParameters PowerPlugin PreemptExemptTime PreemptMode
        PreemptType PrEpParameters PrEpPlugins PriorityCalcPeriod PriorityDecayHalfLife
        PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityParameters
        PrioritySiteFactorParameters PrioritySiteFactorPlugin PriorityType
        PriorityUsageResetPeriod PriorityWeightAge PriorityWeightAssoc
        PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition
        PriorityWeightQOS PriorityWeightTRES PrivateData ProctrackType Prolog
        PrologEpilogTimeout PrologFlags PrologSlurmctld PropagatePrioProcess
        PropagateResourceLimits PropagateResourceLimitsExcept RebootProgram ReconfigFlags
        RequeueExit RequeueExitHold ResumeFailProgram ResumeProgram ResumeRate ResumeTimeout
        ResvEpilog ResvOverRun ResvProlog ReturnToService RoutePlugin SallocDefaultCommand
        SbcastParameters SchedulerParameters SchedulerTimeSlice SchedulerType
        ScronParameters SelectType SelectTypeParameters SlurmctldAddr SlurmctldDebug
        SlurmctldHost SlurmctldLogFile SlurmctldParameters SlurmctldPidFile SlurmctldPort
        SlurmctldPrimaryOffProg SlurmctldPrimaryOnProg SlurmctldSyslogDebug SlurmctldTimeout
        SlurmdDebug SlurmdLogFile SlurmdParameters SlurmdPidFile SlurmdPort SlurmdSpoolDir
        SlurmdSyslogDebug SlurmdTimeout SlurmdUser SlurmSchedLogFile SlurmSchedLogLevel
        SlurmUser SrunEpilog SrunPortRange SrunProlog StateSaveLocation SuspendExcNodes
        SuspendExcParts SuspendProgram SuspendRate SuspendTime SuspendTimeout
        SwitchParameters SwitchType TaskEpilog TaskPlugin TaskPluginParam TaskProlog
        TCPTimeout TmpFS TopologyParam TopologyPlugin TrackWCKey TreeWidth
        UnkillableStepProgram UnkillableStepTimeout UsePAM VSizeFactor WaitTime
        X11Parameters
        """.split()
    ),
    "NodeName": tuple(
        """
        BcastAddr Boards CoreSpecCount CoresPerSocket CpuBind CPUs CPUSpecList Feature
        Features Gres MemSpecLimit NodeAddr NodeHostname Port Procs RealMemory Reason
        Sockets SocketsPerBoard State ThreadsPerCore TmpDisk TRESWeights Weight
        """.split()
    ),
    "PartitionName": tuple(
        """
        AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default DefaultTime
        DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode DenyAccounts DenyQos
        DisableRootJobs ExclusiveUser GraceTime Hidden LLN MaxCPUsPerNode MaxMemPerCPU
        MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe OverTimeLimit
        PreemptMode Priority PriorityJobFactor PriorityTier QOS ReqResv ResumeTimeout
        RootOnly SelectTypeParameters Shared State SuspendTime SuspendTimeout
        TRESBillingWeights
        """.split()
    ),
    "NodeSet": tuple(
        """
        Feature Nodes
        """.split()
    ),
    "DownNodes": tuple(
        """
        Reason State
        """.split()
    ),
    "cgroup.conf": tuple(
        """
        AllowedDevicesFile AllowedRAMSpace AllowedSwapSpace CgroupAutomount CgroupMountpoint
        CgroupPlugin ConstrainCores ConstrainDevices ConstrainRAMSpace ConstrainSwapSpace
        IgnoreSystemd IgnoreSystemdOnFailure MaxRAMPercent MaxSwapPercent
        MemoryLimitEnforcement MemoryLimitThreshold MemorySwappiness MinRAMSpace
        """.split()
    ),
    "gres.conf": tuple(
        """
        AutoDetect Cores Count CPUs File Files Flags Link Links MultipleFiles Name NodeName
        Type
        """.split()
    ),
    "slurmdbd.conf": tuple(
        """
        AllowNoDefAcct ArchiveDir ArchiveEvents ArchiveJobs ArchiveResvs ArchiveScript
        ArchiveSteps ArchiveSuspend ArchiveTXN ArchiveUsage AuthAltParameters AuthAltTypes
        AuthInfo AuthType CommitDelay CommunicationParameters DbdAddr DbdBackupHost DbdHost
        DbdPort DebugFlags DebugLevel DebugLevelSyslog DefaultQOS JobPurge LogFile
        LogTimeFormat MaxQueryTimeRange MessageTimeout Parameters PidFile PluginDir
        PrivateData PurgeEventAfter PurgeEventMonths PurgeJobAfter PurgeJobMonths
        PurgeResvAfter PurgeStepAfter PurgeStepMonths PurgeSuspendAfter PurgeSuspendMonths
        PurgeTXNAfter PurgeTXNMonths PurgeUsageAfter PurgeUsageMonths SlurmUser StepPurge
        StorageBackupHost StorageHost StorageLoc StorageParameters StoragePass StoragePort
        StorageType StorageUser TCPTimeout TrackSlurmctldDown TrackWCKey
        """.split()
    ),
}

#: option -> (first release that has it or None, last release that has it or None), where None
#: means the release lies outside releases.KNOWN.
SOME: dict[str, dict[str, tuple[str | None, str | None]]] = {
    "slurm.conf": {
        "AccountingStorageLoc": (None, "25.05"),
        "CertgenParameters": ("25.05", None),
        "CertgenType": ("25.05", None),
        "CertmgrParameters": ("24.11", None),
        "CertmgrType": ("24.11", None),
        "CliFilterParameters": ("25.11", None),
        "DataParserParameters": ("24.11", None),
        "EpilogTimeout": ("25.05", None),
        "FrontendName": (None, "24.11"),
        "HashPlugin": ("24.05", None),
        "HealthCheckTimeout": ("26.05", None),
        "HttpParserType": ("25.11", None),
        "JobCompPassScript": ("25.11", None),
        "LicenseParameters": ("26.05", None),
        "MaxBatchRequeue": ("23.02", None),
        "MetricsAuthUsers": ("26.05", None),
        "MetricsParameters": ("26.05", None),
        "MetricsType": ("25.11", None),
        "NamespaceType": ("25.11", None),
        "PowerAction": ("26.05", None),
        "PreemptParameters": ("23.02", None),
        "PrologTimeout": ("25.05", None),
        "SchedulerAuth": (None, "23.11"),
        "SlurmctldHttpAuthParameters": ("26.05", None),
        "SlurmctldPlugstack": (None, "22.05"),
        "SlurmdHttpAuthParameters": ("26.05", None),
        "SuspendExcStates": ("23.02", None),
        "TLSParameters": ("24.05", None),
        "TLSType": ("24.05", None),
        "UrlParserType": ("25.11", None),
    },
    "NodeName": {
        "GresConf": ("25.11", None),
        "Parameters": ("25.11", None),
        "RestrictedCoresPerGPU": ("24.05", None),
        "SuspendTime": ("26.05", None),
        "Topology": ("25.05", None),
    },
    "PartitionName": {
        "Exclusive": ("26.05", None),
        "ExclusiveTopo": ("24.05", None),
        "MaxCPUsPerSocket": ("23.02", None),
        "PowerDownOnIdle": ("23.02", None),
        "Topology": ("25.05", None),
    },
    "cgroup.conf": {
        "AllowedKmemSpace": (None, "23.02"),
        "CgroupJobIdPaths": ("26.05", None),
        "CgroupReleaseAgentDir": (None, "25.05"),
        "CgroupSlice": ("25.11", None),
        "ConstrainKmemSpace": (None, "23.02"),
        "EnableControllers": ("23.02", None),
        "EnableExtraControllers": ("25.05", None),
        "MaxKmemPercent": (None, "23.02"),
        "MinKmemSpace": (None, "23.02"),
        "RootOwnedCgroups": ("23.02", "23.02"),
        "SignalChildrenProcesses": ("23.11", None),
        "SystemdTimeout": ("24.05", None),
    },
    "slurmdbd.conf": {
        "AllResourcesAbsolute": ("23.02", None),
        "ArchiveJobEnv": ("26.05", None),
        "ArchiveJobScript": ("26.05", None),
        "DisableArchiveCommands": ("25.11", None),
        "DisableCoordDBD": ("24.05", None),
        "DisableRollups": ("26.05", None),
        "HashPlugin": ("24.05", None),
        "MaxPurgeLimit": ("25.11", None),
        "PurgeJobEnvAfter": ("26.05", None),
        "PurgeJobScriptAfter": ("26.05", None),
        "StoragePassScript": ("25.11", None),
        "TLSParameters": ("24.05", None),
        "TLSType": ("24.05", None),
    },
}

_MAN = "slurm.conf(5) of 22.05 and 23.02: a restart is required for a change to take effect"
_RPC = (
    "scontrol(1) from 23.11: reconfigure makes new processes, and changes neither listening "
    "ports nor the authentication mechanism"
)
_TCP = "slurm.conf(5) from 23.11: changes to TCP listening settings require a daemon restart"
_ONCE = "before 23.11 a plugin is loaded once in the life of a daemon [ours, from the source]"

#: The action that a change of a parameter of slurm.conf needs on a live cluster, where `scontrol
#: reconfigure` is not enough: (parameter, first release or None, release before which it holds or
#: None, action, source). Actions: restart_slurmctld, restart_slurmd, restart_both, refuse.
#: A parameter that is not listed for a release takes a reconfigure.
RESTART: tuple[tuple[str, str | None, str | None, str, str], ...] = (
    # Refused on a live cluster: jobs, or the records of jobs, would be lost.
    (
        "AuthType",
        None,
        None,
        "refuse",
        "slurm.conf(5): all daemons and commands must be stopped before, running steps cannot end",
    ),
    (
        "ClusterName",
        None,
        None,
        "refuse",
        "slurmctld(8) stops at a ClusterName other than that of StateSaveLocation/clustername",
    ),
    (
        "CredType",
        None,
        None,
        "refuse",
        "running steps hold credentials of the old type; follows AuthType [ours]",
    ),
    (
        "JobAcctGatherType",
        None,
        "23.11",
        "refuse",
        "slurm.conf(5) of 22.05: only change this when there are no running job steps",
    ),
    (
        "SelectType",
        None,
        None,
        "refuse",
        "slurm.conf(5): all job information, running and pending, is lost",
    ),
    (
        "SlurmdSpoolDir",
        None,
        None,
        "refuse",
        "running jobs keep their scripts and step sockets there: they would be lost",
    ),
    (
        "SlurmUser",
        None,
        None,
        "refuse",
        "the files of StateSaveLocation and the keys belong to the old user [ours]",
    ),
    (
        "StateSaveLocation",
        None,
        None,
        "refuse",
        "slurmctld would start with no jobs and cancel those that run",
    ),
    (
        "SwitchType",
        None,
        None,
        "refuse",
        "slurm.conf(5): records of all jobs in any state may be lost",
    ),
    # Listening and authentication: a restart with every release.
    ("CommunicationParameters", None, None, "restart_both", _TCP),
    ("SlurmctldAddr", None, None, "restart_slurmctld", _TCP),
    ("SlurmctldPort", None, None, "restart_both", _TCP),
    ("SlurmdPort", None, None, "restart_both", _TCP),
    ("SlurmdUser", None, None, "restart_slurmd", "a process keeps its user [ours]"),
    # Before 23.11, reconfigure read the files again inside the running process.
    ("AccountingStorageEnforce", None, "23.11", "restart_slurmctld", _MAN),
    ("AccountingStorageHost", None, "23.11", "restart_slurmctld", _ONCE),
    ("AccountingStorageType", None, "23.11", "restart_slurmctld", _ONCE),
    ("AcctGatherEnergyType", None, "23.11", "restart_slurmd", _ONCE),
    ("AcctGatherFilesystemType", None, "23.11", "restart_slurmd", _ONCE),
    ("AcctGatherInterconnectType", None, "23.11", "restart_slurmd", _ONCE),
    ("AcctGatherProfileType", None, "23.11", "restart_slurmd", _ONCE),
    ("AuthAltParameters", None, "23.11", "restart_slurmctld", _ONCE),
    ("AuthAltTypes", None, "23.11", "restart_slurmctld", _ONCE),
    ("AuthInfo", None, "23.11", "restart_both", _ONCE),
    ("BurstBufferType", None, "23.11", "restart_slurmctld", _ONCE),
    ("CoreSpecPlugin", None, "23.11", "restart_slurmd", _MAN),
    ("GresTypes", None, "23.11", "restart_both", _MAN),
    ("JobCompType", None, "23.11", "restart_slurmctld", _ONCE),
    ("JobContainerType", None, "23.11", "restart_both", _MAN + "; slurmd: " + _ONCE),
    ("MaxJobCount", None, "23.11", "restart_slurmctld", _MAN),
    ("MaxNodeCount", None, "23.11", "restart_slurmctld", _MAN),
    ("MpiDefault", None, "23.11", "restart_slurmd", _ONCE),
    ("NodeFeaturesPlugins", None, "23.11", "restart_both", _ONCE),
    ("PluginDir", None, "23.11", "restart_both", _MAN),
    ("PowerPlugin", None, "23.11", "restart_slurmctld", _MAN),
    ("PreemptType", None, "23.11", "restart_slurmctld", _ONCE),
    ("PriorityType", None, "23.11", "restart_slurmctld", _ONCE),
    ("ProctrackType", None, "23.11", "restart_both", _MAN + "; slurmd: " + _ONCE),
    ("SchedulerType", None, "23.11", "restart_slurmctld", _MAN),
    ("SelectTypeParameters", None, "23.11", "restart_slurmctld", _MAN),
    ("SlurmctldHost", None, "23.11", "restart_slurmctld", _MAN),
    ("SlurmctldParameters", None, "23.11", "restart_slurmctld", _MAN),
    ("TaskPlugin", None, "23.11", "restart_slurmd", _ONCE),
    ("TopologyPlugin", None, "23.11", "restart_both", _ONCE),
)

#: The same for the other files. Options that are not listed need a reconfigure in gres.conf and cgroup.conf
#: (their manuals: "unless otherwise noted"), and a restart of slurmdbd in slurmdbd.conf.
RESTART_OTHER: dict[str, tuple[tuple[str, str | None, str | None, str, str], ...]] = {
    "gres.conf": (
        (
            "Cores",
            None,
            None,
            "restart_slurmctld",
            "gres.conf(5): a restart of slurmctld is needed for changes to the Cores option",
        ),
        (
            "Type",
            None,
            "23.11",
            "restart_both",
            "gres.conf(5) of 22.05: a restart of slurmctld and slurmd is required",
        ),
    ),
    "cgroup.conf": (
        (
            "CgroupSlice",
            None,
            None,
            "refuse",
            "cgroup.conf(5): all steps on the node must be stopped, and slurmd restarted",
        ),
    ),
    "slurmdbd.conf": (
        (
            "AuthType",
            None,
            None,
            "refuse",
            "slurmdbd.conf(5): slurmdbd must be terminated before it changes",
        ),
    ),
}

#: Single settings inside a parameter that is otherwise read again:
#: (parameter, setting, first release, release before which it holds, action, source).
RESTART_SETTINGS: tuple[tuple[str, str, str | None, str | None, str, str], ...] = (
    ("SchedulerParameters", "no_backup_scheduling", None, "23.11", "restart_slurmctld", _MAN),
)

#: The action that a change of node lines needs; "nodes" means a node that appears or
#: disappears, "hardware" its hardware, "text" its description.
NODES: tuple[tuple[str, str | None, str | None, str, str], ...] = (
    (
        "nodes",
        None,
        "23.11",
        "restart_slurmctld",
        "scontrol(1) of 22.05 and 23.02: slurmctld must be restarted when nodes come or go",
    ),
    ("nodes", "23.11", None, "reconfigure", _RPC),
    (
        "hardware",
        None,
        "23.11",
        "restart_slurmctld",
        "slurm.conf(5) of 22.05, NODE CONFIGURATION: a changed processor count needs a restart; "
        "slurmd reads its node line anew when it is given the configuration",
    ),
    ("hardware", "23.11", None, "reconfigure", _RPC),
    ("Port", None, None, "restart_both", _TCP),
    ("text", None, None, "reconfigure", "slurm.conf(5): unless noted otherwise"),
)

#: Options of a node line that do not describe its hardware.
NODE_TEXT = ("Feature", "Features", "Reason", "State", "TRESWeights", "Weight", "SuspendTime")
