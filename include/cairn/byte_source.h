// Bytes that are somewhere: in a file, an object of a bucket, memory. The one way in which formats
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cairn/bytes.h"

namespace cairn {

// Immutable bytes of known size; what size() says and read() gives belongs to what was opened,
// whatever becomes of its name. Safe from several threads.
//
// A read costs a request, where the bytes are far away: readers ask for all that they know they
// need in one call, and for the ends of a file generously and once.
class ByteSource {
 public:
  struct Range {
    std::uint64_t offset = 0;
    std::span<std::byte> into = {};
  };

  virtual ~ByteSource() = default;

  virtual std::uint64_t size() const = 0;
  // Where it is, for messages: a path, a URI.
  virtual const std::string& name() const = 0;

  // Fills every range, in any order, several at once and near ones as one where that pays; ranges
  // may overlap, their places not. UsageError when one reaches outside. StorageError naming the
  // source and the first byte that could not be read: then what stands in the places is undefined.
  virtual void read(std::span<const Range> ranges) const = 0;

  // Bytes that somebody looks at as they arrive. `into`: their place, as long as `size`; empty when
  // nobody keeps them.
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::span<std::byte> into = {};
  };
  // Some bytes of a part: which part, where in it they begin, and the bytes, in their place if they
  // have one.
  using Look = std::function<void(std::size_t part, std::uint64_t begin, ByteView bytes)>;

  // Reads every part and shows it to `look`, a few MiB at most at a time, as soon as they are
  // there, so that what is computed of them finds them in the processor's cache. Pieces come in any
  // order and from several threads at once; together they are the part. What `look` throws ends it
  // and is thrown on. Errors as read(). As it stands here: by read(), a MiB at a time.
  virtual void read_each(std::span<const Part> parts, const Look& look) const;
  // Whether read_each() shows the parts one after another, each from its beginning, in the thread
  // that called it. A source that is far away does: it has several requests under way meanwhile.
  // A reader that wants bytes in order then asks for all of them with one call.
  virtual bool shows_in_order() const { return false; }
  // Whether a small read costs no more for its size than a large one, as of a device's memory. A
  // save then reads large storages in pieces, and needs no room on the host for a whole one.
  virtual bool is_cheap_in_pieces() const { return false; }

  // Whether view() costs nothing: the bytes are in memory, or a file that was mapped.
  virtual bool in_memory() const { return false; }
  // A range for as long as the result lives: a view where the bytes are in memory, or in a file
  // while load(), verify(), save() or convert() reads it: that is mapped; otherwise a buffer, read
  // now. Pages of a mapped file are read when they are touched: one that the disk does not give is
  // an UnreadableError of that call. Who keeps such a view and touches it when no such call is
  // under way gets SIGBUS, as of any mapped file: the process ends.
  // UsageError, StorageError.
  virtual SharedBytes view(std::uint64_t offset, std::uint64_t size) const;

  // The same bytes without a check, if this is a source of cairn's that verifies what it reads.
  // Otherwise this source.
  virtual const ByteSource& unverified() const { return *this; }
  // For cairn's own sources of files on this machine. Any other source gives nullptr.
  class LocalFile;
  virtual const LocalFile* local_file() const { return nullptr; }

  // UsageError unless the range lies inside.
  void check_range(std::uint64_t offset, std::uint64_t size) const;
};

// All of `bytes`, under a name for messages. Empty bytes need no owner.
std::shared_ptr<const ByteSource> source_of(SharedBytes bytes, std::string name);

}  // namespace cairn
