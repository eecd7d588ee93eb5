// Forbids what a reader of files does not need: writing, starting programs, the network.
#pragma once

namespace cairn::testing {

// After this call, the process is killed (SIGSYS) if it creates, changes, renames or removes a file
// (unnamed scratch files are allowed), runs a program, forks, or opens a socket. It may start
// threads. Returns false if the kernel has no seccomp filters.
bool enter_sandbox();

}  // namespace cairn::testing
