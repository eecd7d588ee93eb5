// Streams the records of a torch.save file into a sink.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/zip/layout.h"

namespace cairn::zip {

// add() every record, then finish(). Keeps only the directory in memory.
class Writer {
 public:
  // `sink` must outlive the writer. UsageError for a prefix that cannot be a folder's name.
  Writer(ByteSink& sink, std::string prefix);

  // Each byte is read once: a piece that fits the processor's cache goes through the CRC, then to
  // the sink. UsageError for a name that cannot be looked up again.
  void add(std::string_view name, const SharedBytes& bytes);
  void add(std::string_view name, std::string_view text) {
    add(name, SharedBytes{as_bytes(text), nullptr});
  }

  // Instead of add(), when only offset() is wanted: what add() would write, without the bytes.
  void add_size(std::string_view name, std::uint64_t size);

  void finish();

  const std::vector<Entry>& entries() const { return entries_; }
  std::uint64_t offset() const { return offset_; }  // of what comes next; the size, at the end

 private:
  Entry begin(std::string_view name, std::uint64_t size);
  void end(Entry entry);
  void write(std::string_view text);

  ByteSink& sink_;
  std::string prefix_;
  std::vector<Entry> entries_;
  std::uint64_t offset_ = 0;
};

}  // namespace cairn::zip
