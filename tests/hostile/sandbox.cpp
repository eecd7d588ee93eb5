#include "tests/hostile/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace cairn::testing {
namespace {

constexpr int kForbidden[] = {
    SYS_execve,    SYS_execveat, SYS_socket,       SYS_socketpair, SYS_connect, SYS_unlinkat,
    SYS_renameat,  SYS_linkat,   SYS_symlinkat,    SYS_mkdirat,    SYS_mknodat, SYS_renameat2,
    SYS_fchmodat,  SYS_fchownat, SYS_truncate,     SYS_ptrace,     SYS_mount,   SYS_setxattr,
    SYS_utimensat, SYS_bind,     SYS_memfd_create,
#ifdef SYS_fork
    SYS_fork,      SYS_vfork,    SYS_unlink,       SYS_rename,     SYS_link,    SYS_symlink,
    SYS_mkdir,     SYS_rmdir,    SYS_mknod,        SYS_creat,      SYS_chmod,   SYS_chown,
#endif
};

constexpr unsigned kKill = SECCOMP_RET_KILL_PROCESS;
constexpr unsigned kMissing = SECCOMP_RET_ERRNO | ENOSYS;  // makes libc use the older calls
constexpr unsigned kUnnamed = O_TMPFILE & ~O_DIRECTORY;
constexpr unsigned kWrites = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

#ifdef __x86_64__
constexpr unsigned kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr unsigned kArchitecture = AUDIT_ARCH_AARCH64;
#endif

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    jump(BPF_JEQ, kArchitecture, 1, 0);
    answer(kKill);
    load(offsetof(seccomp_data, nr));
  }

  void answer_to(int call, unsigned with) {
    jump(BPF_JEQ, static_cast<unsigned>(call), 0, 1);
    answer(with);
  }

  // Kills the process unless the flags in this argument are for reading, or for an unnamed file.
  void check_open(int call, std::size_t argument) {
    jump(BPF_JEQ, static_cast<unsigned>(call), 0, 5);
    load(offsetof(seccomp_data, args) + 8 * argument);
    jump(BPF_JSET, kUnnamed, 1, 0);
    jump(BPF_JSET, kWrites, 1, 0);
    answer(SECCOMP_RET_ALLOW);
    answer(kKill);
  }

  // Kills the process unless the call starts a thread.
  void check_clone() {
    jump(BPF_JEQ, SYS_clone, 0, 4);
    load(offsetof(seccomp_data, args));
    jump(BPF_JSET, CLONE_THREAD, 0, 1);
    answer(SECCOMP_RET_ALLOW);
    answer(kKill);
  }

  bool install() {
    answer(SECCOMP_RET_ALLOW);
    sock_fprog program = {static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void load(std::size_t offset) {
    code_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset)));
  }
  void jump(unsigned condition, unsigned value, unsigned char if_true, unsigned char if_false) {
    code_.push_back(BPF_JUMP(static_cast<unsigned short>(BPF_JMP | BPF_K | condition), value,
                             if_true, if_false));
  }
  void answer(unsigned with) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, with)); }

  std::vector<sock_filter> code_;
};

}  // namespace

bool enter_sandbox() {
  Filter filter;
  for (const int call : kForbidden) {
    filter.answer_to(call, kKill);
  }
  filter.answer_to(SYS_clone3, kMissing);
  filter.answer_to(SYS_openat2, kMissing);
  filter.check_clone();
  filter.check_open(SYS_openat, 2);
#ifdef SYS_open
  filter.check_open(SYS_open, 1);
#endif
  return filter.install();
}

}  // namespace cairn::testing
