// Makes a limit on the size of files (`ulimit -f`) an error like any other, instead of the end of
// the process.
#pragma once

namespace cairn {

// Sets SIGXFSZ to "ignore" if its disposition is the default. Done once per process; later calls
// are cheap. Code that writes to a file calls it first.
void ignore_file_size_signal();

}  // namespace cairn
