#include "format/dcp/write_metadata.h"

#include "format/pickle/pickler.h"

namespace cairn::dcp {
namespace {

using pickle::Op;
using pickle::Pickler;

constexpr const char* kModule = "torch.distributed.checkpoint.metadata";

// Writes the objects of `.metadata`. Each dataclass is an object made of nothing and a dict of its
// fields.
class MetadataPickler {
 public:
  explicit MetadataPickler(const MetadataContent& content) : content_(content) {}

  std::string write() {
    out_.reserve(usual_size(), content_.items());
    begin_fields(kModule, "Metadata");
    dict("state_dict_metadata", [&](std::size_t i, const WrittenItem& item) {
      out_.text(item.fqn);
      storage_metadata(i, item);
    });
    dict("planner_data", [&](std::size_t, const WrittenItem& item) {
      out_.text(item.fqn);
      path(item);
    });
    dict("storage_data", [&](std::size_t i, const WrittenItem& item) { locations(i, item); });
    if (!content_.save_id().empty()) storage_meta();
    end_fields();
    return std::move(out_).finish();
  }

 private:
  // Rather more than it takes: pages that nobody writes to are none, and a text that grows step by
  // step takes twice the memory.
  std::size_t usual_size() const {
    std::size_t bytes = 4096;
    for (std::size_t i = 0; i < content_.items(); ++i) {
      const WrittenItem item = content_.item(i);
      const std::size_t dims = item.size == nullptr ? 0 : item.size->size();
      bytes += 400 + 2 * item.fqn.size() + item.chunks * (100 + 10 * dims);
    }
    return bytes;
  }

  // An object that nothing refers to again needs no number: of a tensor in several chunks there may
  // be millions.
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
    }
    end_dict();
  }

  void size(const Dims& dims) {
    out_.global("torch", "Size");
    out_.tuple_of(dims);
    out_.tuple(1);
    out_.reduce();
  }
  // The same, of which only the whole gets a number, which is returned.
  std::uint32_t shared_size(const Dims& dims) {
    out_.say(size_, [&] { out_.global("torch", "Size"); });
    if (dims.size() > 3) out_.op(Op::kMark);
    for (const std::int64_t dim : dims) {
      out_.integer(dim);
    }
    constexpr Op kTuples[] = {Op::kEmptyTuple, Op::kTuple1, Op::kTuple2, Op::kTuple3};
    out_.op(dims.size() > 3 ? Op::kTuple : kTuples[dims.size()]);
    out_.op(Op::kTuple1);
    out_.op(Op::kReduce);
    return out_.put();
  }

  // (dtype, layout, requires_grad, memory format, pin_memory)
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
    if (!item.dtype) return begin_object(kModule, "BytesStorageMetadata");
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
    size(*chunk.offsets);
    out_.text("sizes");
    size(*chunk.sizes);
    end_fields();
  }

  void chunks(std::size_t index) {
    Dims last_sizes;
    std::uint32_t last_number = 0;
    bool is_first = true;
    out_.op(Op::kMark);
    content_.for_each_chunk(index, [&](const WrittenChunk& chunk) {
      out_.say(chunk_, [&] {
        begin_fields(kModule, "ChunkStorageMetadata", true);
        out_.text("offsets");
      });
      offset_numbers_.push_back(shared_size(*chunk.offsets));
      out_.say(sizes_, [&] { out_.text("sizes"); });
      if (is_first || *chunk.sizes != last_sizes) {
        last_number = shared_size(*chunk.sizes);
        last_sizes = *chunk.sizes;
        is_first = false;
      } else {
        out_.get(last_number);
      }
      end_fields();
    });
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

  void locations(std::size_t index, const WrittenItem& item) {
    const bool are_many = item.chunks > 1;
    std::int64_t position = 0;
    Pickler::Phrase name;
    content_.for_each_chunk(index, [&](const WrittenChunk& chunk) {
      const auto begin = [&] {
        begin_fields(kModule, "MetadataIndex", are_many);
        out_.text("fqn");
        out_.text(item.fqn);
        out_.text("index");
      };
      are_many ? out_.say(name, begin) : begin();
      if (item.dtype) {
        out_.integer(position++);
        out_.text("offset");
        are_many ? out_.get(offset_numbers_[next_offset_++]) : size(*chunk.offsets);
      } else {
        out_.none();
      }
      end_fields();
      location(chunk, are_many);
    });
  }

  void location(const WrittenChunk& chunk, bool is_one_of_many) {
    const auto begin = [&] {
      begin_fields("torch.distributed.checkpoint.filesystem", "_StorageInfo", is_one_of_many);
      out_.text("relative_path");
    };
    const auto offset = [&] { out_.text("offset"); };
    const auto length = [&] { out_.text("length"); };
    is_one_of_many ? out_.say(location_, begin) : begin();
    out_.text(chunk.file);
    is_one_of_many ? out_.say(offset_, offset) : offset();
    out_.integer(static_cast<std::int64_t>(chunk.offset));
    is_one_of_many ? out_.say(length_, length) : length();
    out_.integer(static_cast<std::int64_t>(chunk.size));
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
  Pickler out_;
  Pickler::Phrase size_;
  Pickler::Phrase chunk_;
  Pickler::Phrase sizes_;
  Pickler::Phrase location_;
  Pickler::Phrase offset_;
  Pickler::Phrase length_;
  // Of the chunks of tensors in several, in order.
  std::vector<std::uint32_t> offset_numbers_;
  std::size_t next_offset_ = 0;
};

}  // namespace

std::string write_metadata(const MetadataContent& content) {
  return MetadataPickler(content).write();
}

}  // namespace cairn::dcp
