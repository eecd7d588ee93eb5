// ByteSource: bytes in a file, in a bucket's object or in memory. All formats read through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cairn/bytes.h"
#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Immutable bytes of known size. size() and read() always refer to the file or object that was
// opened, even if its name is removed or reused. Safe to use from several threads.
//
// Each read may cost a request to a server. So readers ask for everything they need in one call,
// and read the beginning and the end of a file once, generously.
class ByteSource {
 public:
  struct Range {
    std::uint64_t offset = 0;
    std::span<std::byte> into = {};
  };

  virtual ~ByteSource() = default;

  virtual std::uint64_t size() const = 0;
  // Where the bytes are, for messages: a path or a URI.
  virtual const std::string& name() const = 0;

  // Fills every range, in any order. May read several ranges at once, and ranges that lie close
  // together as one. The ranges of bytes may overlap, but their destinations may not. Throws
  // UsageError if a range reaches outside of the source. Throws StorageError naming the source and
  // the first byte that could not be read. After an error the content of the destinations is
  // undefined.
  virtual void read(std::span<const Range> ranges) const = 0;

  // A range to be shown to a callback as it arrives. `into` is empty, or a destination of `size`
  // bytes.
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::span<std::byte> into = {};
  };
  // Receives some bytes of a part: the index of the part, the offset of the bytes in it, and the
  // bytes. The bytes are in the part's destination if it has one.
  using Look = std::function<void(std::size_t part, std::uint64_t begin, ByteView bytes)>;

  // Reads every part and passes it to `look` in pieces of a few MiB at most, as soon as they
  // arrive. So the bytes are still in the processor's cache when `look` uses them. Pieces come in
  // any order, and from several threads at once; the pieces of a part together cover the part. An
  // exception that `look` throws ends the read and is rethrown. Throws as read() does. The default
  // implementation calls read() for a MiB at a time.
  virtual void read_each(std::span<const Part> parts, const Look& look) const;
  // Whether read_each() shows the parts one after another, each from its beginning, in the calling
  // thread. A source in a far store does so, with several requests under way. If true, a reader
  // that needs bytes in order asks for all of them in one call.
  virtual bool shows_in_order() const { return false; }
  // Whether many small reads cost no more than one large read, as from a device's memory. If true,
  // a save reads large storages in pieces, and needs no host memory for a whole storage.
  virtual bool is_cheap_in_pieces() const { return false; }

  // Whether view() costs nothing: the bytes are in memory or in a mapped file.
  virtual bool in_memory() const { return false; }
  // Returns a range of the bytes, valid as long as the result lives. The result is a view if the
  // bytes are in memory. It is also a view, of a mapped file, during a call of load(), verify(),
  // save() or convert() that reads the file. Otherwise the result is a buffer that this call fills.
  //
  // Pages of a mapped file are read when they are touched. If the disk fails then, the call of
  // load(), verify(), save() or convert() throws UnreadableError. Touching such a view outside of
  // these calls raises SIGBUS instead, as with any mapped file, and the process ends.
  //
  // Throws UsageError, StorageError.
  virtual SharedBytes view(std::uint64_t offset, std::uint64_t size) const;

  // Returns the same bytes without verification, if this is a source of cairn's own that verifies
  // what it reads. Otherwise returns this source.
  virtual const ByteSource& unverified() const { return *this; }
  // Set for cairn's own sources of local files; nullptr for all others.
  class LocalFile;
  virtual const LocalFile* local_file() const { return nullptr; }

  // Throws UsageError unless the range lies inside of the source.
  void check_range(std::uint64_t offset, std::uint64_t size) const;
};

// A source over all of `bytes`; `name` is for messages. Empty bytes need no owner.
std::shared_ptr<const ByteSource> source_of(SharedBytes bytes, std::string name);

}  // namespace cairn
