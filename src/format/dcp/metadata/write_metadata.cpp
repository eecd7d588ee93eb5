#include "format/dcp/metadata/write_metadata.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "cairn/error.h"

#include "format/dcp/metadata/layout.h"
#include "format/pickle/opcodes.h"
#include "format/pickle/write/pickler.h"
#include "io/memory/page_memory.h"

namespace cairn::dcp {
namespace {

using pickle::Op;
using pickle::Pickler;

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";
constexpr const char* kFileModule = "torch.distributed.checkpoint.filesystem";

// A short Pickler::Phrase. All 32 bytes are copied, whatever its length: a copy of fixed size takes
// two instructions.
struct LinePhrase {
  std::array<char, 32> bytes = {};
  std::size_t size = 0;  // 0: not known yet
};

// Opcodes of many chunks, collected and then appended to the pickle together. With ten million
// chunks, a call for each opcode would take most of the time.
class Lines {
 public:
  void op(Op code) { *at_++ = static_cast<char>(code); }
  void phrase(const LinePhrase& phrase) {
    std::memcpy(at_, phrase.bytes.data(), phrase.bytes.size());
    at_ += phrase.size;
  }
  void integer(std::int64_t v) { at_ = pickle::put_integer(at_, v); }
  void get(std::uint32_t number) { at_ = pickle::put_get(at_, number); }
  void put(std::uint32_t number) { at_ = pickle::put_put(at_, number); }
  // Returns whether another chunk fits.
  bool have_room() const { return at_ < bytes_.data() + kUsed; }
  void move_to(Pickler& out) {
    out.append({bytes_.data(), at_});
    at_ = bytes_.data();
  }

 private:
  static constexpr std::size_t kUsed = std::size_t{16} << 10;
  // Room for two sizes, and for the rest of a chunk.
  static constexpr std::size_t kMaxChunkBytes = 2 * kMaxDims * pickle::kMaxOpcodeBytes + 1024;
  std::array<char, kUsed + kMaxChunkBytes> bytes_;
  char* at_ = bytes_.data();
};

// Writes the objects of `.metadata`. Each dataclass is an object made without arguments, and a dict
// of its fields.
class MetadataPickler {
 public:
  MetadataPickler(const MetadataContent& content, ByteSink& sink)
      : content_(content), sink_(sink), files_(content.files()) {}

  void write() {
    out_.reserve(kPiece + kPiece / 4, content_.items());
    begin_fields(kModule, "Metadata");
    dict("state_dict_metadata", [&](std::size_t i, const WrittenItem& item) {
      out_.text(item.fqn);
      storage_metadata(i, item);
    });
    dict("planner_data", [&](std::size_t, const WrittenItem& item) {
      out_.text(item.fqn);
      path(item);
    });
    dict("storage_data", [&](std::size_t, const WrittenItem& item) { locations(item); });
    if (!content_.save_id().empty()) storage_meta();
    end_fields();
    sink_.write(as_bytes(std::move(out_).finish()));
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{256} << 10;  // fits a processor's cache
  // An object that is `is_one_of_many` gets no memo number, because nothing refers to it again. A
  // tensor in several chunks may have millions of such objects.
  void begin_object(const char* module, const char* type, bool is_one_of_many = false) {
    out_.global(module, type);
    out_.empty_tuple();
    out_.op(Op::kNewObj);
    if (!is_one_of_many) out_.put();
  }
  void begin_fields(const char* module, const char* type, bool is_one_of_many = false) {
    begin_object(module, type, is_one_of_many);
    begin_dict(is_one_of_many);
  }
  void begin_dict(bool is_one_of_many = false) {
    out_.op(Op::kEmptyDict);
    if (!is_one_of_many) out_.put();
    out_.op(Op::kMark);
  }
  void end_dict() { out_.op(Op::kSetItems); }
  void end_fields() {
    end_dict();
    out_.op(Op::kBuild);
  }
  void dict(const char* name, auto&& write_item) {
    out_.text(name);
    begin_dict();
    for (std::size_t i = 0; i < content_.items(); ++i) {
      write_item(i, content_.item(i));
      move_on();
    }
    end_dict();
  }

  void move_on() {
    if (out_.written().size() >= kPiece) out_.move_to(sink_);
  }

  void size(std::span<const std::int64_t> dims) {
    out_.global("torch", "Size");
    out_.tuple_of(dims);
    out_.tuple(1);
    out_.reduce();
  }

  // --- Tensors in several chunks, in lines_ ---

  // Writes a phrase as Pickler::write_phrase() does.
  void write_phrase(LinePhrase& phrase, const auto& write) {
    if (phrase.size > 0) return lines_.phrase(phrase);
    lines_.move_to(out_);
    Pickler::Phrase written;
    out_.write_phrase(written, write);
    if (written.size() > phrase.bytes.size()) return;
    phrase.size = static_cast<std::size_t>(std::ranges::copy(written, phrase.bytes.begin()).out -
                                           phrase.bytes.begin());
  }
  void end_fields_of_chunk() {
    lines_.op(Op::kSetItems);
    lines_.op(Op::kBuild);
  }
  void end_chunk() {
    if (!lines_.have_room()) end_chunks();
  }
  void end_chunks() {
    lines_.move_to(out_);
    move_on();
  }
  // Writes a size. Only the whole size gets a memo number, which is returned.
  std::uint32_t size_of_chunk(std::span<const std::int64_t> dims) {
    if (dims.size() > kMaxDims) throw UnsupportedError("a tensor of more than 64 dimensions");
    write_phrase(phrases_.size, [&] { out_.global("torch", "Size"); });
    if (dims.size() > 3) lines_.op(Op::kMark);
    for (const std::int64_t dim : dims) {
      lines_.integer(dim);
    }
    constexpr Op kTuples[] = {Op::kEmptyTuple, Op::kTuple1, Op::kTuple2, Op::kTuple3};
    lines_.op(dims.size() > 3 ? Op::kTuple : kTuples[dims.size()]);
    lines_.op(Op::kTuple1);
    lines_.op(Op::kReduce);
    const std::uint32_t number = out_.next_number();
    lines_.put(number);
    return number;
  }

  // Writes (dtype, layout, requires_grad, memory format, pin_memory).
  void properties(const WrittenItem& item) {
    begin_object(kModule, "TensorProperties");
    out_.op(Op::kMark);
    out_.global("torch", name(*item.dtype));
    out_.global("torch.serialization", "_get_layout");
    out_.text("torch.strided");
    out_.tuple(1);
    out_.reduce();
    out_.boolean(item.requires_grad);
    out_.global(kModule, "_MEM_FORMAT_ENCODING");
    out_.integer(0);  // contiguous
    out_.tuple(1);
    out_.reduce();
    out_.boolean(false);
    out_.tuple_since_mark();
    out_.op(Op::kBuild);
  }

  void storage_metadata(std::size_t index, const WrittenItem& item) {
    if (!item.dtype) {
      begin_object(kModule, "BytesStorageMetadata");
      content_.for_each_chunk(index,
                              [&](const WrittenChunk& chunk) { numbers_.push_back(chunk.number); });
      return;
    }
    begin_fields(kModule, "TensorStorageMetadata");
    out_.text("properties");
    properties(item);
    out_.text("size");
    size(*item.size);
    out_.text("chunks");
    out_.op(Op::kEmptyList);
    out_.put();
    if (item.chunks == 1) {
      content_.for_each_chunk(index, [&](const WrittenChunk& chunk) { only_chunk(chunk); });
      out_.op(Op::kAppend);
    } else if (item.chunks > 1) {
      chunks(index);
    }
    end_fields();
  }

  void only_chunk(const WrittenChunk& chunk) {
    begin_fields(kModule, "ChunkStorageMetadata");
    out_.text("offsets");
    size(chunk.offsets);
    out_.text("sizes");
    size(chunk.sizes);
    end_fields();
    numbers_.push_back(chunk.number);
    only_offsets_.insert(only_offsets_.end(), chunk.offsets.begin(), chunk.offsets.end());
  }

  void chunks(std::size_t index) {
    Dims last_sizes;
    std::uint32_t last_number = 0;
    bool is_first = true;
    out_.op(Op::kMark);
    content_.for_each_chunk(index, [&](const WrittenChunk& chunk) {
      write_phrase(phrases_.chunk, [&] {
        begin_fields(kModule, "ChunkStorageMetadata", true);
        out_.text("offsets");
      });
      numbers_.push_back(chunk.number);
      offsets_.push_back(size_of_chunk(chunk.offsets));
      write_phrase(phrases_.sizes, [&] { out_.text("sizes"); });
      if (is_first || !std::ranges::equal(chunk.sizes, last_sizes)) {
        last_number = size_of_chunk(chunk.sizes);
        last_sizes.assign(chunk.sizes.begin(), chunk.sizes.end());
        is_first = false;
      } else {
        lines_.get(last_number);
      }
      end_fields_of_chunk();
      end_chunk();
    });
    end_chunks();
    out_.op(Op::kAppends);
  }

  void path(const WrittenItem& item) {
    out_.op(Op::kMark);
    for (const auto& part : *item.path) {
      if (const auto* key = std::get_if<std::string>(&part)) {
        out_.text(*key);
      } else {
        out_.integer(std::get<std::int64_t>(part));
      }
    }
    out_.tuple_since_mark();
  }

  void locations(const WrittenItem& item) {
    places_.resize(item.chunks);
    content_.get_places(std::span(numbers_).subspan(next_number_, item.chunks), places_);
    next_number_ += item.chunks;
    if (item.chunks == 1) return only_location(item, places_.front());
    LinePhrase index;
    for (std::size_t i = 0; i < item.chunks; ++i) {
      write_phrase(index, [&] { begin_index(item, true); });
      lines_.integer(static_cast<std::int64_t>(i));
      write_phrase(phrases_.offset, [&] { out_.text("offset"); });
      lines_.get(offsets_[next_offsets_++]);
      end_fields_of_chunk();
      location(places_[i]);
    }
    end_chunks();
  }

  void begin_index(const WrittenItem& item, bool is_one_of_many = false) {
    begin_fields(kModule, "MetadataIndex", is_one_of_many);
    out_.text("fqn");
    out_.text(item.fqn);
    out_.text("index");
  }

  void location(const WrittenPlace& place) {
    write_phrase(phrases_.location, [&] {
      begin_fields(kFileModule, "_StorageInfo", true);
      out_.text("relative_path");
    });
    write_phrase(files_[place.file], [&] { out_.text(content_.file_name(place.file)); });
    write_phrase(phrases_.offset, [&] { out_.text("offset"); });
    lines_.integer(static_cast<std::int64_t>(place.offset));
    write_phrase(phrases_.length, [&] { out_.text("length"); });
    lines_.integer(static_cast<std::int64_t>(place.size));
    end_fields_of_chunk();
    end_chunk();
  }

  void only_location(const WrittenItem& item, const WrittenPlace& place) {
    begin_index(item);
    if (item.dtype) {
      const auto offsets = std::span(only_offsets_).subspan(next_only_, item.size->size());
      next_only_ += offsets.size();
      out_.integer(0);
      out_.text("offset");
      size(offsets);
    } else {
      out_.none();
    }
    end_fields();
    begin_fields(kFileModule, "_StorageInfo");
    out_.text("relative_path");
    out_.text(content_.file_name(place.file));
    out_.text("offset");
    out_.integer(static_cast<std::int64_t>(place.offset));
    out_.text("length");
    out_.integer(static_cast<std::int64_t>(place.size));
    end_fields();
  }

  void storage_meta() {
    out_.text("storage_meta");
    begin_fields(kModule, "StorageMeta");
    out_.text("checkpoint_id");
    out_.none();
    out_.text("save_id");
    out_.text(content_.save_id());
    out_.text("load_id");
    out_.none();
    out_.text("modules");
    out_.op(Op::kEmptyList);
    out_.put();
    end_fields();
    out_.text("version");
    out_.text("1.0.0");
  }

  const MetadataContent& content_;
  ByteSink& sink_;
  Pickler out_;
  Lines lines_;
  struct {
    LinePhrase size, chunk, sizes, location, offset, length;
  } phrases_;
  std::vector<LinePhrase> files_;
  // Kept by step 1 for step 3: the numbers of all chunks; the memo numbers of offsets, if a tensor
  // has several chunks; the offsets themselves, if it has one.
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint32_t> offsets_;
  std::vector<std::int64_t> only_offsets_;
  std::vector<WrittenPlace> places_;  // of one item
  std::size_t next_number_ = 0;
  std::size_t next_offsets_ = 0;
  std::size_t next_only_ = 0;
};

class ToString final : public ByteSink {
 public:
  void write(ByteView bytes) override { text.append(as_text(bytes)); }
  std::string text;
};

}  // namespace

void write_metadata(const MetadataContent& content, ByteSink& out) {
  MetadataPickler(content, out).write();
}

std::size_t metadata_bytes(const MetadataContent& content) {
  std::size_t bytes = 4096;
  for (std::size_t i = 0; i < content.items(); ++i) {
    const WrittenItem item = content.item(i);
    const std::size_t dims = item.size == nullptr ? 0 : item.size->size();
    bytes += 400 + 2 * item.fqn.size() + item.chunks * (100 + 10 * dims);
  }
  return bytes;
}

std::string write_metadata(const MetadataContent& content) {
  ToString to;
  reserve_pages(to.text, metadata_bytes(content));
  write_metadata(content, to);
  return std::move(to.text);
}

}  // namespace cairn::dcp
