#!/usr/bin/env bash
# A real Slurm of two nodes, n1 and n2, on this machine, to try and test with:
#
#   eval "$(slurm/dev_cluster.sh up)"     start it, and use it in this shell
#   slurm/dev_cluster.sh status           nodes and jobs; exit code 1 if it is not up
#   slurm/dev_cluster.sh down             end it and its jobs, and remove its files
#
# A second argument, or FL_DDP_SLURM, names the folder that holds all its files: clusters in different folders live side
# by side. As root it installs Debian's slurm-wlm and munge where they are missing, and starts none of their services; once
# they are there it runs as anyone. Its partitions are main and low: jobs of main preempt those of low, which are requeued.
# Each node has 4 CPUs and 2 GPUs that can be asked for but are none.
set -euo pipefail

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
die() { echo "dev_cluster: error: $*" >&2; exit 1; }

[ $# -ge 1 ] && [ $# -le 2 ] || usage
PATH=$PATH:/usr/sbin:/sbin
user=$(id -un)
folder=$(realpath -m "${2:-${FL_DDP_SLURM:-${TMPDIR:-/tmp}/fl_ddp-slurm-$user}}")
socket=$folder/munge/socket
export SLURM_CONF=$folder/slurm.conf

is_up() { [ -f "$SLURM_CONF" ] && [ "$(sinfo -h -N -p main -o %T 2>/dev/null | wc -l)" = 2 ]; }

install() {
    command -v slurmctld slurmd munged sbatch >/dev/null && return
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        die "slurmctld, slurmd or munged is missing; as root on Debian: apt-get install slurm-wlm munge"
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then # keeps the packages from starting services
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
        trap "rm -f $policy" EXIT
    fi
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends slurm-wlm munge; } >&2 ||
        die "slurm-wlm and munge cannot be installed"
}

# Ports that nobody listens on; below those that Linux gives to connections.
free_ports() {
    local port
    for port in $(shuf -i 30000-32767); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || echo "$port"
    done | head -n "$1" || true
}

# Starts a daemon with its output in a log; its folder marks what it starts in turn.
start() {
    local name=$1
    shift
    (cd "$folder" && exec setsid "$@" </dev/null >"$folder/log/$name" 2>&1) &
    echo $! >"$folder/run/$name"
}

configure() {
    local ports
    ports=($(free_ports 3))
    mkdir -p "$folder"/{munge,state,spool/n1,spool/n2,log,run,gpus}
    touch "$folder"/gpus/gpu{0,1}
    echo "Name=gpu File=$folder/gpus/gpu[0-1]" >"$folder/gres.conf"
    (umask 077 && head -c 128 /dev/urandom >"$folder/munge/key")
    cat >"$SLURM_CONF" <<END
ClusterName=dev
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
# a requeued job may start again once its old credential has expired
AuthInfo=socket=$socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
MailProg=/bin/true
ReturnToService=1
EnforcePartLimits=ALL
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
SlurmctldTimeout=10
SlurmdTimeout=15
MinJobAge=3600
KillWait=5
GresTypes=gpu
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=4 RealMemory=4000 Gres=gpu:2
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=${ports[2]} CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=low Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
END
}

up() {
    [ ${#socket} -lt 100 ] || die "$folder: is too long a path for a socket; accepted: at most 85 characters"
    if ! is_up; then
        install
        if [ -e "$SLURM_CONF" ]; then down; fi
        [ -z "$(ls -A "$folder" 2>/dev/null)" ] || die "$folder: is not empty; choose another folder"
        mkdir -p "$folder" || die "$folder: cannot be made"
        configure
        start munged munged --foreground --force --socket="$socket" --key-file="$folder/munge/key" \
            --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
        until munge -S "$socket" -n >/dev/null 2>&1; do
            kill -0 "$(cat "$folder/run/munged")" 2>/dev/null || failed munged
            sleep 0.05
        done
        start slurmctld slurmctld -D -c -f "$SLURM_CONF"
        start slurmd-n1 slurmd -D -N n1 -f "$SLURM_CONF"
        start slurmd-n2 slurmd -D -N n2 -f "$SLURM_CONF"
        local tries=0
        until [ "$(sinfo -h -N -p main -o %T 2>/dev/null | grep -c '^idle$')" = 2 ]; do
            ((++tries < 300)) || failed slurmctld
            sleep 0.1
        done
    fi
    printf 'export SLURM_CONF=%q\n' "$SLURM_CONF"
}

failed() {
    tail -n 5 "$folder/log/$1" >&2
    down
    die "$1 did not start"
}

# Daemons that watch over steps, and outlive a slurmd that was killed.
stragglers() {
    local process
    for process in /proc/[0-9]*; do
        case $(tr '\0' ' ' <"$process/cmdline")@$(readlink "$process/cwd") in
        slurmstepd*@"$folder"*) echo "${process#/proc/}" ;;
        esac
    done 2>/dev/null
    return 0
}

end() {
    local pid=$1 signal tries
    for signal in TERM KILL; do
        kill -s $signal "$pid" 2>/dev/null || return 0
        for tries in $(seq 50); do
            kill -0 "$pid" 2>/dev/null || return 0
            sleep 0.1
        done
    done
}

down() {
    local name pid tries
    if is_up; then
        scontrol update nodename=n1,n2 state=resume 2>/dev/null || true
        scancel --user="$user" 2>/dev/null || true
        for tries in $(seq 150); do
            [ -n "$(squeue -h -t R,CG,S -o %i 2>/dev/null)" ] || break
            sleep 0.1
        done
    fi
    for name in slurmd-n1 slurmd-n2 slurmctld munged; do
        pid=$(cat "$folder/run/$name" 2>/dev/null) || continue
        # the number may be another process's by now
        if grep -qsF "$folder" "/proc/$pid/cmdline"; then end "$pid"; fi
    done
    for pid in $(stragglers); do end "$pid"; done
    if [ -e "$SLURM_CONF" ]; then rm -rf "$folder"/{munge,state,spool,log,run,gpus,gres.conf,slurm.conf}; fi
    rmdir "$folder" 2>/dev/null || true
}

case $1 in
up) up ;;
down) down ;;
status)
    is_up || { echo "no cluster in $folder"; exit 1; }
    sinfo -N && squeue
    ;;
*) usage ;;
esac
