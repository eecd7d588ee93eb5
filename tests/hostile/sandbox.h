// What a reader of files must not need: writing, starting programs, the network.
#pragma once

namespace cairn::testing {

// From here on the process is killed (SIGSYS) when it creates, changes, renames or removes a file
// (unnamed scratch files are allowed), runs a program, forks, or opens a socket. Threads may start.
// False where the kernel has no seccomp filters.
bool enter_sandbox();

}  // namespace cairn::testing
