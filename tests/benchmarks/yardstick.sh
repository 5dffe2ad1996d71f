#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
#
# What `make bench` measures site.yml against: the same cluster as inventories/local describes, set up by a
# shell script as a good HPC engineer would write it for this one site. All nodes at the same time, one SSH
# call and one package transaction a node, checks before it acts, restarts only what has a newer
# configuration than its start. It can be run again.
#
# Usage: yardstick.sh SSH_KEY KNOWN_HOSTS CONTROLLER LOGIN COMPUTE...    (each host as NAME=ADDRESS)
# Prints `mark NAME SECONDS` for: facts, nodes, stands (all asserted), job (a two-node job is in sacct).
set -euo pipefail

cluster=local
cpus=8                                # declared for each compute node, as in inventories/local
users='alice:2001 bob:2002'
buffer_pool=128M

# --- on the nodes: these functions travel by `declare -f` ------------------------------------------------

changed() { echo "changed: $*"; }

# put MODE OWNER PATH: standard input becomes the file's content, unless it is already.
put() {
    local draft
    draft=$(mktemp)
    cat >"$draft"
    if ! cmp -s "$draft" "$3"; then
        mkdir -p "${3%/*}"
        install -m "$1" -o "${2%:*}" -g "${2#*:}" "$draft" "$3"
        changed "$3"
    fi
    rm -f "$draft"
}

# dir MODE OWNER PATH
dir() { [ "$(stat -c '0%a %U:%G' "$3" 2>/dev/null)" = "$1 $2" ] || install -d -m "$1" -o "${2%:*}" -g "${2#*:}" "$3"; }

# poll SECONDS WHAT COMMAND...
poll() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || { echo "gave up waiting for $what" >&2; return 1; }
        sleep 0.1
    done
}

listens() { (: <"/dev/tcp/$1/$2"); }

# service NAME FILE...: enabled and running, restarted when one of its files is newer than its start.
service() {
    local name=$1 file stamp=/var/lib/yardstick/$1 restart=
    shift
    systemctl -q is-active "$name" || restart=1
    for file; do [ "$stamp" -nt "$file" ] || restart=1; done
    systemctl -q is-enabled "$name" 2>/dev/null || systemctl -q enable "$name"
    [ -n "$restart" ] || return 0
    systemctl daemon-reload
    touch "$stamp.new"
    systemctl restart "$name"
    mv "$stamp.new" "$stamp"          # files written since the touch count as newer
    changed "restarted $name"
}

packages() {
    local missing
    # With what packages provide: Debian 13's libpmix2 is libpmix2t64.
    missing=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Provides}\n' | sed -n 's/^installed //p' |
        tr -s ' ,' '\n' | sort -u | comm -13 - <(printf '%s\n' "$@" | sort))
    [ -n "$missing" ] || return 0
    # Without this, slurmd and sackd start at once and wait 90 s for a configuration that is not there.
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    export DEBIAN_FRONTEND=noninteractive
    local apt=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
    [ -n "$(find /var/lib/apt/lists -name '*Packages*' -mmin -1440 -print -quit)" ] || "${apt[@]}" update
    # shellcheck disable=SC2086
    "${apt[@]}" install --no-install-recommends -y $missing
    rm -f /usr/sbin/policy-rc.d
    trap - EXIT
    changed packages
}

account() { # NAME UID [system]
    getent group "$1" >/dev/null || groupadd ${3:+--system} -g "$2" "$1"
    [ "$(id -u "$1" 2>/dev/null)" = "$2" ] ||
        if [ -n "${3-}" ]; then
            useradd --system -u "$2" -g "$1" -d /nonexistent -s /usr/sbin/nologin -M "$1"
        else
            useradd -u "$2" -g "$1" -d "/home/$1" -s /bin/bash -M "$1"
        fi
}

bind() { # SOURCE PATH
    mkdir -p "$1" "$2"
    grep -qs "^$1 $2 " /etc/fstab || { echo "$1 $2 none bind 0 0" >>/etc/fstab; changed "fstab $2"; }
    mountpoint -q "$2" || mount "$2"
}

# One line: memory in MB, cgroup mode, Debian's version, host key.
node_facts() {
    local cgroup=hybrid
    grep -qv '^0::' /proc/self/cgroup || cgroup=v2
    echo "$(awk '/^MemTotal/ {print int($2 * 0.95 / 1024)}' /proc/meminfo) $cgroup" \
        "$(. /etc/os-release; echo "$VERSION_ID") $(cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)"
}

# The controller makes the keys, and says the munge key in a second line. It travels to the other nodes on
# standard input, never in arguments.
controller_facts() {
    local dir=/etc/yardstick
    node_facts
    (umask 077
     mkdir -p $dir
     [ -s $dir/munge.key ] || head -c 1024 /dev/urandom >$dir/munge.key
     [ -s $dir/jwt.key ] || head -c 32 /dev/urandom >$dir/jwt.key
     [ -s $dir/password ] || head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >$dir/password)
    base64 -w0 $dir/munge.key
}

# What every node has.
node() {
    local user lib extra=()
    mkdir -p /var/lib/yardstick
    account slurm 64030 system; account munge 64031 system; account slurmrestd 64032 system
    for user in $users; do account "${user%:*}" "${user#*:}"; done
    case $1 in
        controller) extra=(slurmctld slurmdbd slurmrestd slurm-client slurm-wlm-jwt-plugin haproxy mariadb-server python3-pymysql) ;;
        compute) extra=(slurmd slurm-client libpam-slurm-adopt) ;;
        login) extra=(slurm-client openssh-client git jq less vim-tiny tmux rsync python3-venv "$client_daemon") ;;
    esac
    packages munge libpmix2 logrotate openssh-server ca-certificates "${extra[@]}"
    # mpi/pmix of Debian 12 opens libpmix.so, which otherwise comes with libpmix-dev and its compilers only.
    for lib in /usr/lib/*/pmix2/lib/libpmix.so.2; do
        [ ! -e "$lib" ] || [ -e "${lib%.2}" ] || ln -s libpmix.so.2 "${lib%.2}"
    done

    put 0644 root:root /etc/hosts <<<"127.0.0.1 localhost"$'\n'"$hosts_file"
    put 0644 root:root /etc/ssh/ssh_known_hosts <<<"$known_hosts_file"
    put 0644 root:root /etc/security/limits.d/90-slurm.conf <<'END'
* soft memlock unlimited
* hard memlock unlimited
* soft nofile 131072
* hard nofile 131072
* soft stack unlimited
END
    put 0644 root:root /etc/sysctl.d/90-slurm.conf <<'END'
-net.core.somaxconn = 65535
-net.ipv4.tcp_max_syn_backlog = 65535
-net.ipv4.neigh.default.gc_thresh1 = 0
-net.ipv4.neigh.default.gc_thresh2 = 15360
-net.ipv4.neigh.default.gc_thresh3 = 16384
END
    put 0644 root:root /etc/logrotate.d/slurm-site <<'END'
/var/log/slurm/*.log {
    daily
    rotate 30
    missingok
    notifempty
    compress
    delaycompress
    sharedscripts
    su slurm slurm
    create 0640 slurm slurm
    postrotate
        for daemon in slurmctld slurmdbd slurmd; do pkill -x --signal USR2 "$daemon" || true; done
    endscript
}
END
    service systemd-sysctl /etc/sysctl.d/90-slurm.conf
    dir 0755 slurm:slurm /var/log/slurm
    dir 0755 root:root /etc/slurm
    bind /srv/cluster/home /home
    bind /srv/cluster/shared /shared
    dir 0700 munge:munge /etc/munge
    base64 -d <<<"$munge_key" | put 0400 munge:munge /etc/munge/munge.key
    service munge /etc/munge/munge.key
}

override() { # SERVICE, with lines for [Service] on standard input
    put 0644 root:root "/etc/systemd/system/$1.service.d/site.conf" <<END
[Unit]
ConditionPathExists=
After=munge.service network-online.target
[Service]
Restart=on-failure
RestartSec=5
$(cat)
END
}

# slurmd or sackd: fetches its configuration from the controller as soon as that answers.
configless() { # SERVICE, with lines for [Service] on standard input
    override "$1"
    put 0644 root:root "/etc/default/$1" <<<"${1^^}_OPTIONS=\"--conf-server $controller:6817\""
    poll 300 "slurmctld on $controller" listens "$controller" 6817
    service "$1" "/etc/default/$1" "/etc/systemd/system/$1.service.d/site.conf"
}

slurmd_unit() {
    dir 0755 root:root /var/spool/slurmd
    configless slurmd <<'END'
LimitNOFILE=131072
LimitMEMLOCK=infinity
LimitSTACK=infinity
Delegate=yes
TasksMax=infinity
KillMode=process
END
}

compute() {
    node compute
    put 0644 root:root /etc/security/access-slurm.conf <<<$'+ : root : ALL\n- : ALL : ALL'
    grep -q pam_slurm_adopt /etc/pam.d/sshd || sed -i '/^@include common-account/a\
account    sufficient   pam_access.so accessfile=/etc/security/access-slurm.conf noaudit\
account    required     pam_slurm_adopt.so' /etc/pam.d/sshd
    slurmd_unit
    poll 60 slurmd listens "$address" 6818
}

login() {
    local user home
    node login
    put 0644 root:root /etc/ssh/sshd_config.d/50-login-limits.conf <<'END'
MaxStartups 100:30:300
PerSourceMaxStartups 50
PerSourceNetBlockSize 32:128
END
    /usr/sbin/sshd -t
    service ssh /etc/ssh/sshd_config.d/50-login-limits.conf
    dir 1777 root:root /shared/data
    for user in $users; do
        user=${user%:*} home=/home/${user%:*}
        [ ! -s "$home/.ssh/authorized_keys" ] || continue
        cp -rT /etc/skel "$home"
        mkdir -p "$home/.ssh"
        ssh-keygen -q -t ed25519 -N '' -C "$user@$cluster" -f "$home/.ssh/id_ed25519"
        cp "$home/.ssh/id_ed25519.pub" "$home/.ssh/authorized_keys"
        chown -R "$user:$user" "$home"
        chmod 700 "$home" "$home/.ssh"
    done
    if [ "$client_daemon" = slurmd ]; then slurmd_unit; else configless sackd <<<''; fi
}

slurm_conf() {
    local proctrack=linuxproc task=task/none jobacct=linux version
    version=$(slurmctld -V | cut -d' ' -f2)
    local cgroup=disabled
    if [ "$cgroup_mode" = v2 ]; then
        cgroup=cgroup/v2 proctrack=cgroup jobacct=cgroup
    elif [[ $version == 22.* ]]; then
        cgroup=cgroup/v1 jobacct=none
    fi
    put 0644 root:root /etc/slurm/cgroup.conf <<<"CgroupPlugin=$cgroup"
    put 0644 root:root /etc/slurm/slurm.conf <<END
ClusterName=$cluster
SlurmctldHost=$controller($address)
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
SrunPortRange=60001-63000
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ReturnToService=2
RebootProgram=/sbin/reboot
ProctrackType=proctrack/$proctrack
TaskPlugin=$task
PrologFlags=Alloc,Contain
LaunchParameters=use_interactive_step
MpiDefault=pmix
MessageTimeout=30
UnkillableStepTimeout=180
BatchStartTimeout=180
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightFairshare=10000
PriorityWeightQOS=10000
PriorityWeightPartition=1000
PriorityWeightAge=1000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
DefMemPerCPU=$((memory / cpus))
JobAcctGatherType=jobacct_gather/$jobacct
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$address
AccountingStorageEnforce=associations,limits,qos
$node_lines
PartitionName=stable Nodes=$compute_names Default=YES PriorityTier=10 PreemptMode=off
PartitionName=opportunistic Nodes=$compute_names PriorityTier=1 PreemptMode=requeue GraceTime=10
END
}

database() {
    local password
    password=$(cat /etc/yardstick/password)
    put 0644 root:root /etc/mysql/mariadb.conf.d/60-slurm.cnf <<END
[mysqld]
bind-address = 127.0.0.1
innodb_buffer_pool_size = $buffer_pool
innodb_log_file_size = 64M
innodb_lock_wait_timeout = 900
max_allowed_packet = 16M
loose_innodb_snapshot_isolation = OFF
END
    service mariadb /etc/mysql/mariadb.conf.d/60-slurm.cnf
    poll 60 MariaDB mariadb-admin --silent ping
    # States what must be; where it is so already, it changes nothing.
    mariadb <<END
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED BY '$password';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
END
    put 0600 slurm:slurm /etc/slurm/slurmdbd.conf <<END
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
DbdHost=$controller
DbdAddr=$address
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=$password
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd.pid
PurgeEventAfter=12months
PurgeJobAfter=24months
PurgeResvAfter=24months
PurgeStepAfter=12months
PurgeSuspendAfter=12months
END
    service slurmdbd /etc/slurm/slurmdbd.conf
    poll 90 slurmdbd listens "$address" 6819
}

accounting() {
    local have user missing=()
    have=$(sacctmgr -nP show qos format=name,priority; sacctmgr -nP show assoc format=cluster,account,user)
    has() { grep -qxF "$1" <<<"$have"; }
    has "$cluster|root|root" || sacctmgr -iQ add cluster "$cluster"
    has 'stable|100' || sacctmgr -iQ add qos stable priority=100
    has 'opportunistic|10' || sacctmgr -iQ add qos opportunistic priority=10
    has "$cluster|research|" ||
        sacctmgr -iQ add account research cluster="$cluster" description='The example account' fairshare=10
    for user in $users; do has "$cluster|research|${user%:*}" || missing+=("${user%:*}"); done
    [ ${#missing[@]} -eq 0 ] ||
        sacctmgr -iQ add user "$(IFS=,; echo "${missing[*]}")" account=research cluster="$cluster"
}

# As site.yml does: slurmrestd has no limits of its own, so HAProxy stands before it.
rest_front() {
    put 0644 root:root /etc/haproxy/haproxy.cfg <<'END'
global
    maxconn 2200
defaults
    mode http
    timeout connect 5s
    timeout http-request 10s
    timeout client 30s
    timeout queue 1m
    timeout server 10m
frontend front
    bind unix@/run/slurmrestd/slurmrestd.socket mode 666 maxconn 200
    bind 0.0.0.0:6820 maxconn 2000
    http-request deny deny_status 401 unless { req.hdr(x-slurm-user-token) -m found }
    default_backend slurmrestd
backend slurmrestd
    server local unix@/run/slurmrestd-daemon/slurmrestd.socket maxconn 60
END
    put 0644 root:root /etc/systemd/system/haproxy.service.d/site.conf <<'END'
[Service]
User=slurmrestd
Group=slurmrestd
RuntimeDirectory=slurmrestd haproxy
RuntimeDirectoryMode=0755
END
    service haproxy /etc/haproxy/haproxy.cfg /etc/systemd/system/haproxy.service.d/site.conf
}

controller() {
    node controller
    put 0400 slurm:slurm /etc/slurm/jwt_hs256.key </etc/yardstick/jwt.key
    dir 0700 slurm:slurm /var/spool/slurmctld
    slurm_conf
    database
    accounting
    service slurmctld /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /etc/slurm/jwt_hs256.key
    put 0644 root:root /etc/systemd/system/slurmrestd.service.d/site.conf <<'END'
[Unit]
ConditionPathExists=
After=munge.service slurmctld.service network-online.target
[Service]
User=slurmrestd
Group=slurmrestd
RuntimeDirectory=slurmrestd-daemon
RuntimeDirectoryMode=0755
Environment="SLURM_JWT=daemon" "SLURMRESTD_LISTEN=unix:/run/slurmrestd-daemon/slurmrestd.socket"
EnvironmentFile=
ExecStart=
ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt -t 10
Restart=on-failure
RestartSec=5
END
    service slurmrestd /etc/systemd/system/slurmrestd.service.d/site.conf
    rest_front
    poll 60 slurmctld listens "$address" 6817
    poll 30 slurmrestd listens "$address" 6820
}

# rest [TOKEN]: HTTP status of the node list on TCP.
rest() {
    local version=v0.0.41 line
    [[ $(slurmctld -V) != *' 22.'* ]] || version=v0.0.38
    exec 9<>"/dev/tcp/$address/6820"
    printf 'GET /slurm/%s/nodes HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n' "$version" "$controller" \
        "${1:+X-SLURM-USER-NAME: alice$'\r\n'X-SLURM-USER-TOKEN: $1$'\r\n'}" >&9
    read -r _ line _ <&9
    exec 9>&-
    echo "$line"
}

all_idle() { [ "$(sinfo -hN -p stable -o '%N %T' | awk '$2 == "idle"' | wc -l)" -eq "$1" ]; }

stands() {
    local count=$1 token status
    poll 120 "$count idle nodes" all_idle "$count" || { sinfo -N -l; return 1; }
    status=$(rest)
    [ "$status" = 401 ] || { echo "REST without a token answers $status, not 401" >&2; return 1; }
    token=$(scontrol token username=alice lifespan=60)
    status=$(rest "${token#*=}")
    [ "$status" = 200 ] || { echo "REST with a token answers $status, not 200" >&2; return 1; }
    [ -S /run/slurmrestd/slurmrestd.socket ] || { echo 'slurmrestd has no Unix socket' >&2; return 1; }
    # As site.yml does: a step on each node.
    srun -p stable -N "$count" true
}

completed() { [ "$(sacct -nX -j "$1" -o state%20 | tr -d ' ')" = COMPLETED ]; }

job() {
    local id hosts out
    out=$(printf '%s\n' '#!/bin/bash' 'srun hostname | sort -u' | su - alice -c 'sbatch --parsable -N2 -o job-%j.out')
    id=${out%%;*}
    poll 60 "job $id to be COMPLETED in sacct" completed "$id" || { sacct -X -j "$id"; return 1; }
    hosts=$(wc -l <"/home/alice/job-$id.out")
    [ "$hosts" -eq 2 ] || { echo "job $id did not run on 2 nodes:" >&2; cat "/home/alice/job-$id.out" >&2; return 1; }
}

# --- here ------------------------------------------------------------------------------------------------

[ $# -ge 5 ] || { sed -n 's/^# \(Usage.*\)/\1/p' "$0" >&2; exit 2; }
key=$1 known_hosts=$2
shift 2
work=$(mktemp -d)
all=("$@")
controller=${1%%=*} login=${2%%=*}
began=${EPOCHREALTIME/./}

cleanup() {
    local socket
    for socket in "$work"/ssh-*; do
        [ ! -S "$socket" ] || ssh -F none -o ControlPath="$socket" -O exit - 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

mark() {
    local spent=$((${EPOCHREALTIME/./} - began))
    printf 'mark %s %d.%02d\n' "$1" $((spent / 1000000)) $((spent % 1000000 / 10000))
}

# on HOST FUNCTION [ARGUMENT...]: runs one of the functions above there, as root, with the site's variables.
on() {
    local host=$1 address=${1#*=}
    shift
    {
        echo 'set -euo pipefail'
        declare -p cluster cpus users buffer_pool controller address
        declare -p munge_key hosts_file known_hosts_file node_lines compute_names memory cgroup_mode client_daemon \
            2>/dev/null || true
        declare -f
        printf '%q ' "$@"
        echo '</dev/null'
    } | ssh -F none -i "$key" -o IdentitiesOnly=yes -o UserKnownHostsFile="$known_hosts" \
        -o StrictHostKeyChecking=yes -o ControlMaster=auto -o ControlPath="$work/ssh-%h" -o ControlPersist=30 \
        -o LogLevel=ERROR "root@${host#*=}" bash -s
}

# everywhere COMMAND: runs `COMMAND HOST` for all hosts at once; the first failure ends the script.
everywhere() {
    local host pid
    declare -A hosts=()
    for host in "${all[@]}"; do
        "$1" "$host" >"$work/${host%%=*}.log" 2>&1 &
        hosts[$!]=${host%%=*}
    done
    while [ ${#hosts[@]} -gt 0 ]; do
        wait -n -p pid "${!hosts[@]}" || {
            echo "failed on ${hosts[$pid]}:" >&2
            tail -n 20 "$work/${hosts[$pid]}.log" >&2
            unset 'hosts[$pid]'
            [ ${#hosts[@]} -eq 0 ] || kill "${!hosts[@]}" 2>/dev/null || true
            exit 1
        }
        unset 'hosts[$pid]'
    done
}

facts_of() {
    if [ "$1" = "${all[0]}" ]; then on "$1" controller_facts; else on "$1" node_facts; fi
}

setup() {
    case $1 in
        "${all[0]}") on "$1" controller ;;
        "${all[1]}") on "$1" login ;;
        *) on "$1" compute ;;
    esac
}

everywhere facts_of
munge_key=$(sed -n 2p "$work/$controller.log")
hosts_file='' known_hosts_file='' node_lines='' compute_names='' memory='' cgroup_mode=v2 client_daemon=sackd
for host in "${all[@]}"; do
    name=${host%%=*}
    read -r mb mode release host_key <"$work/$name.log"
    hosts_file+="${host#*=} $name"$'\n'
    known_hosts_file+="$name,${host#*=} $host_key"$'\n'
    [ "$mode" = v2 ] || cgroup_mode=hybrid
    [ "$release" -ge 13 ] || client_daemon=slurmd      # Slurm 22.05 has no sackd
    [ "$name" != "$controller" ] || continue
    if [ "$name" != "$login" ]; then
        compute_names+=${compute_names:+,}$name
        [ -n "$memory" ] && [ "$memory" -le "$mb" ] || memory=$mb
    elif [ "$client_daemon" = sackd ]; then
        continue
    fi
    node_lines+="NodeName=$name NodeAddr=${host#*=} CPUs=$cpus Boards=1 SocketsPerBoard=1"
    node_lines+=" CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=$mb"$'\n'
done
mark facts

everywhere setup
mark nodes
on "${all[0]}" stands "$(($# - 2))"
mark stands
on "${all[1]}" job
mark job
grep -H ^changed "$work"/*.log | sed "s,^.*/,," | sort || true
