// Running another program as a filter.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cairn/bytes.h"

#include "io/spawn.h"

namespace cairn {

// A running program. What is written goes to its standard input, and what it writes to its standard
// output goes to `out`, all on the caller's thread: from within write() and finish().
class PipeThrough final : public ByteSink {
 public:
  // argv[0] is searched for in $PATH: NotFoundError. StorageError when it cannot be started. `out`
  // must live as long as this.
  PipeThrough(const std::vector<std::string>& argv, ByteSink& out);
  // Kills it, when finish() was not called.
  ~PipeThrough() override;
  PipeThrough(const PipeThrough&) = delete;
  PipeThrough& operator=(const PipeThrough&) = delete;

  // What the program does not want any more, because it has ended, is dropped: finish() says why.
  void write(ByteView bytes) override;
  // Ends its input and waits for its end. Empty when it ended with 0; otherwise what went wrong:
  // "lzop ended with exit code 1: lzop: <stdin>: Checksum error". StorageError when somebody else
  // ended it, which says nothing about its input.
  std::string finish();

 private:
  void pump(ByteView& input);
  void take_output(FileDescriptor& from);
  std::string describe_end(int status) const;

  ByteSink& out_;
  std::string name_;
  pid_t pid_ = -1;
  FileDescriptor input_;   // a socket: writing to one that is closed need not raise SIGPIPE
  FileDescriptor output_;  // the reading ends of pipes
  FileDescriptor errors_;
  std::string messages_;  // from its standard error, the first few lines
  std::vector<std::byte> buffer_;
};

}  // namespace cairn
