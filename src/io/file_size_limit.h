// A limit on the size of files (`ulimit -f`) that is an error like any other, and not the end of
// the process.
#pragma once

namespace cairn {

// Sets SIGXFSZ to "ignore" when its disposition is still the default one. Once in a process; cheap
// from then on. Whatever writes to a file calls it first.
void ignore_file_size_signal();

}  // namespace cairn
