//! seccomp: refuses system calls that no agent needs and that could be used to escape. It is a
//! deny list, because agents run any tool of the project; the mounts and Landlock are the allow
//! lists.
//!
//! The filter only ever adds refusals. A call is refused with EPERM rather than by killing the
//! process: tools probe for calls that they can do without, and a dead compiler explains nothing.

use std::collections::BTreeMap;
use std::io;

#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use super::{SandboxLevel, SandboxNetwork, SandboxSpec, landlock};

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are refused with any arguments.
const REFUSED: &[i64] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Files by handle, which bypasses paths.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    // Another way to make system calls, which seccomp filters do not see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Calls that pass their arguments behind a pointer, where no filter sees them. They fail with
/// ENOSYS, which makes every libc and runtime fall back to the older call.
const UNKNOWN: &[i64] = &[libc::SYS_clone3, libc::SYS_openat2];

/// Numbers of calls that the `libc` crate does not name yet: `setxattrat`, `removexattrat`,
/// `file_setattr`.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;
const FCHMODAT2: i64 = 452;

/// Calls that change metadata, which Landlock does not check. On the level without mounts they are
/// refused, unless the run may change metadata.
const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// System V and POSIX IPC calls. Without an IPC namespace, objects of the person's other processes
/// are reachable by number or name, and Landlock checks none of these calls.
const SHARED_IPC: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
];

/// Calls that change another process of the same user, and the argument with its pid. Zero is the
/// caller itself, which stays allowed: runtimes set their own limits and priorities.
const BY_PID: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Calls whose first argument selects one process, a group or all processes of a user, with the
/// value that means one process.
const BY_KIND: &[(i64, i32)] = &[(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// Calls that set a file mode, and the argument with the mode.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    (libc::SYS_openat, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
];

/// First call number of the x32 interface. It has the same calls under other numbers, which the
/// lists above do not contain. Few kernels support it. The filter library compares exact numbers,
/// so these would otherwise pass as unknown calls.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: u32 = 0x4000_0000;

/// Restricts this process and its descendants.
pub fn restrict_with_seccomp(confinement: &SandboxSpec) -> io::Result<()> {
    // ENOSYS and EPERM need two programs: a filter has one action for everything that matches. The
    // kernel runs both on every call and the stricter answer decides.
    let mut unknown = compile(unknown(), libc::ENOSYS)?;
    #[cfg(target_arch = "x86_64")]
    unknown.splice(0..0, other_numbers());
    for program in [unknown, compile(refused(confinement)?, libc::EPERM)?] {
        // Each filter also applies to installing the next one, so no list may contain `seccomp` or
        // `prctl` without conditions.
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Returns ENOSYS for all x32 calls with one comparison. The kernel evaluates a filter for every
/// existing call when it is installed, so a filter of twice the length takes twice the time to
/// install.
#[cfg(target_arch = "x86_64")]
fn other_numbers() -> [sock_filter; 3] {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    // The kernel takes the error number from the low 16 bits of the returned value.
    let no_such_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let step = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    [
        // Offset 0 of the data that a filter sees is the number of the call.
        step(LOAD_NUMBER, 0, 0),
        step(JUMP_IF_AT_LEAST, 1, OTHER_NUMBERS),
        step(RETURN, 0, no_such_call),
    ]
}

// The library's program begins with a check of the architecture and kills on a mismatch, so 32-bit
// calls, which have other numbers again, do not pass.
fn compile(rules: SeccompRules, errno: i32) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

fn unknown() -> SeccompRules {
    let mut rules = SeccompRules::new();
    refuse_all(&mut rules, UNKNOWN);
    rules
}

fn refused(confinement: &SandboxSpec) -> io::Result<SeccompRules> {
    let mut rules = SeccompRules::new();
    refuse_all(&mut rules, REFUSED);
    new_namespaces(&mut rules)?;
    set_id_files(&mut rules)?;
    sockets(&mut rules, confinement)?;
    // With a network namespace the proxy is the only reachable peer anyway. Without one, Landlock
    // checks TCP `connect` alone and everything else has to be refused here.
    if confinement.level == SandboxLevel::Landlock
        && matches!(confinement.network, SandboxNetwork::Proxy(_))
    {
        tcp_by_connect_only(&mut rules)?;
    }
    requests(&mut rules)?;
    leases(&mut rules)?;
    // A level with namespaces separates processes, IPC and files by itself. Refusing these calls
    // there as well would break databases in tests and package managers that set modes.
    if confinement.level == SandboxLevel::Landlock {
        other_processes(&mut rules)?;
        refuse_all(&mut rules, SHARED_IPC);
        hidden_files(&mut rules)?;
        if !confinement.metadata {
            refuse_all(&mut rules, METADATA);
        }
    }
    Ok(rules)
}

fn refuse_all(rules: &mut SeccompRules, calls: &[i64]) {
    for call in calls {
        refuse(rules, *call);
    }
}

fn refuse(rules: &mut SeccompRules, call: i64) {
    // An empty list of rules matches every call; `refuse_where` adds nothing to it.
    rules.insert(call, Vec::new());
}

fn refuse_where(
    rules: &mut SeccompRules,
    call: i64,
    conditions: Vec<SeccompCondition>,
) -> io::Result<()> {
    let rule = SeccompRule::new(conditions).map_err(io::Error::other)?;
    match rules.get_mut(&call) {
        Some(known) if known.is_empty() => {}
        Some(known) => known.push(rule),
        None => drop(rules.insert(call, vec![rule])),
    }
    Ok(())
}

// The comparison covers 32 bits: the kernel ignores the upper half of `int` arguments, so a 64-bit
// comparison could be bypassed by setting bits there.
fn condition(argument: u8, is: SeccompCmpOp, value: i32) -> io::Result<SeccompCondition> {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value).map_err(io::Error::other)
}

fn has_flag(argument: u8, flag: i32) -> io::Result<SeccompCondition> {
    let mask = u64::from(flag.cast_unsigned());
    condition(argument, SeccompCmpOp::MaskedEq(mask), flag)
}

/// Refuses new namespaces through `clone`. A process that is root in its own user namespace reaches
/// kernel code that is otherwise closed to it. `clone3` hides its flags behind a pointer and is
/// refused as a whole.
fn new_namespaces(rules: &mut SeccompRules) -> io::Result<()> {
    let kinds = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    for kind in kinds {
        refuse_where(rules, libc::SYS_clone, vec![has_flag(0, kind)?])?;
    }
    Ok(())
}

/// Refuses changes to other processes. Landlock restricts signals, but neither limits nor
/// priorities: `prlimit` with a CPU limit of zero kills any process of the same user.
fn other_processes(rules: &mut SeccompRules) -> io::Result<()> {
    for (call, argument) in BY_PID {
        let other = condition(*argument, SeccompCmpOp::Ne, 0)?;
        refuse_where(rules, *call, vec![other])?;
    }
    for (call, one_process) in BY_KIND {
        let several = condition(0, SeccompCmpOp::Ne, *one_process)?;
        refuse_where(rules, *call, vec![several])?;
    }
    refuse_all(rules, &[libc::SYS_process_mrelease]);
    Ok(())
}

/// Refuses to make a process undumpable, because that hides its open files from the supervisor,
/// which counts memory through them. With a user namespace the supervisor may read them anyway.
fn hidden_files(rules: &mut SeccompRules) -> io::Result<()> {
    let sets = condition(0, SeccompCmpOp::Eq, libc::PR_SET_DUMPABLE)?;
    // The value 1 is the usual state after `execve`, so setting it again hides nothing.
    let off = condition(1, SeccompCmpOp::Ne, 1)?;
    refuse_where(rules, libc::SYS_prctl, vec![sets, off])
}

/// Refuses set-user-id and set-group-id files: they would outlive the sandbox and run as the
/// person.
fn set_id_files(rules: &mut SeccompRules) -> io::Result<()> {
    // Creating such a file needs no privilege. Inside it is harmless because of `no_new_privs`, but
    // a writable directory of the run is an ordinary directory outside.
    for (call, argument) in MODES {
        for bit in [0o4000, 0o2000] {
            let mut conditions = vec![has_flag(*argument, bit)?];
            // Without O_CREAT there is no mode, and the argument is undefined.
            let flags = match *call {
                libc::SYS_openat => Some(2),
                #[cfg(target_arch = "x86_64")]
                libc::SYS_open => Some(1),
                _ => None,
            };
            if let Some(flags) = flags {
                conditions.push(has_flag(flags, libc::O_CREAT)?);
            }
            refuse_where(rules, *call, conditions)?;
        }
    }
    Ok(())
}

/// Limits socket families. Only the listed ones have a namespace or a Landlock rule that keeps them
/// inside; families such as `AF_VSOCK` or `AF_ALG` reach the hypervisor or kernel code directly.
fn sockets(rules: &mut SeccompRules, confinement: &SandboxSpec) -> io::Result<()> {
    // Netlink stays for the routing protocol below: libc's `getifaddrs` and DNS lookups need it.
    let mut families = vec![libc::AF_NETLINK];
    // A socket path leads to the process that listens there. If everything is mounted through
    // overlays, no other process's socket is reachable by path; the network namespace or Landlock
    // separates abstract sockets.
    let apart = confinement.network.is_isolated() || landlock::is_scoped();
    if confinement.level == SandboxLevel::Native && confinement.unix_sockets && apart {
        families.push(libc::AF_UNIX);
    } else {
        pairs_that_can_be_renamed(rules)?;
    }
    // On this level a closed network means no IP socket at all; elsewhere the namespace has only
    // loopback, which test suites use.
    if confinement.level != SandboxLevel::Landlock || confinement.network != SandboxNetwork::Off {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    let others = families
        .into_iter()
        .map(|family| condition(0, SeccompCmpOp::Ne, family))
        .collect::<io::Result<_>>()?;
    // Conditions of one rule are joined by "and": the family is none of the permitted ones.
    refuse_where(rules, libc::SYS_socket, others)?;
    let netlink = condition(0, SeccompCmpOp::Eq, libc::AF_NETLINK)?;
    let not_routes = condition(2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE)?;
    refuse_where(rules, libc::SYS_socket, vec![netlink, not_routes])
}

/// Refuses socket pairs that can send to any address: one end of a datagram pair can, so it is
/// refused wherever UNIX sockets are. A raw pair is a datagram pair under another name; stream and
/// packet pairs stay connected to each other.
fn pairs_that_can_be_renamed(rules: &mut SeccompRules) -> io::Result<()> {
    const KIND: u64 = 0xf;
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM] {
        let is = condition(1, SeccompCmpOp::MaskedEq(KIND), kind)?;
        refuse_where(rules, libc::SYS_socketpair, vec![is])?;
    }
    Ok(())
}

/// Refuses file leases: a lease delays every process outside that opens the file, for as long as
/// the machine allows.
fn leases(rules: &mut SeccompRules) -> io::Result<()> {
    let lease = condition(1, SeccompCmpOp::Eq, libc::F_SETLEASE)?;
    refuse_where(rules, libc::SYS_fcntl, vec![lease])
}

/// Refuses all networking except TCP through `connect`. Without a namespace, Landlock limits a run
/// to the ports of its proxy, but it checks only that: no datagrams, no other protocols, no TCP
/// Fast Open, and no incoming connections.
fn tcp_by_connect_only(rules: &mut SeccompRules) -> io::Result<()> {
    /// Mask for the socket type without its flags.
    const KIND: u64 = 0xf;
    /// The obsolete type for raw packets.
    const SOCK_PACKET: i32 = 10;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let of_family = || condition(0, SeccompCmpOp::Eq, family);
        for kind in [
            libc::SOCK_DGRAM,
            libc::SOCK_RAW,
            libc::SOCK_RDM,
            libc::SOCK_SEQPACKET,
            libc::SOCK_DCCP,
            SOCK_PACKET,
        ] {
            let is = condition(1, SeccompCmpOp::MaskedEq(KIND), kind)?;
            refuse_where(rules, libc::SYS_socket, vec![of_family()?, is])?;
        }
        let not_default = condition(2, SeccompCmpOp::Ne, 0)?;
        let not_tcp = condition(2, SeccompCmpOp::Ne, libc::IPPROTO_TCP)?;
        refuse_where(
            rules,
            libc::SYS_socket,
            vec![of_family()?, not_default, not_tcp],
        )?;
    }
    for (call, flags) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        let fast = has_flag(flags, libc::MSG_FASTOPEN)?;
        refuse_where(rules, call, vec![fast])?;
    }
    refuse(rules, libc::SYS_listen);
    Ok(())
}

/// Requests to devices and file systems that are refused on all levels: input into the person's
/// terminal, and file flags, which no write or mode check covers.
const REQUESTS: &[i32] = &[
    // TIOCSTI and TIOCLINUX
    0x5412,
    0x541C,
    // FS_IOC_SETFLAGS in both sizes, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION in both sizes
    0x4008_6602,
    0x4004_6602,
    0x401C_5820,
    0x4008_7602,
    0x4004_7602,
];

fn requests(rules: &mut SeccompRules) -> io::Result<()> {
    for request in REQUESTS {
        let is = condition(1, SeccompCmpOp::Eq, *request)?;
        refuse_where(rules, libc::SYS_ioctl, vec![is])?;
    }
    Ok(())
}
