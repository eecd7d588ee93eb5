// Plain pickles, as pickle.dump() writes them, as a CheckpointSource.
#include "cairn/error.h"

#include "checkpoint/open/formats/candidate.h"
#include "format/pickle/opcodes.h"
#include "format/pickle/read/unpickle.h"
#include "format/pickle/write/pickle_size.h"
#include "io/bytes/source_part.h"

namespace cairn {
namespace {

// A plain pickle has no place for the storages of tensors.
class NoStorages final : public pickle::StorageLoader {
 public:
  std::shared_ptr<const Storage> load(const pickle::StorageReference& reference) override {
    throw CorruptError("storage " + std::string(reference.key) + " is not in the file");
  }
};

bool names_its_protocol(ByteView bytes) {
  return bytes.size() >= 2 && bytes[0] == static_cast<std::byte>(pickle::Op::kProto) &&
         static_cast<int>(bytes[1]) <= pickle::kHighestProtocol;
}

class PickleSource final : public CheckpointSource {
 public:
  explicit PickleSource(Candidate candidate) : candidate_(std::move(candidate)) {}

  SourceInfo info() const override {
    const ByteView start = candidate_.start.view;
    const int protocol = names_its_protocol(start) ? static_cast<int>(start[1]) : 0;
    return {.format = kPickleFormat.name,
            .description = "a plain pickle",
            .containers = candidate_.containers,
            .writer = "Python",
            .bytes = candidate_.stored_bytes,
            .notes = {{"pickle protocol", protocol > 0 ? std::to_string(protocol) : "0 or 1"}}};
  }

  Value read() const override {
    const std::string& path = candidate_.path;
    NoStorages storages;
    try {
      const SharedBytes bytes = read_all(*candidate_.source);
      return pickle::unpickle(bytes.view, storages);
    } catch (const CorruptError& e) {
      throw CorruptError(path + ": " + e.what(), path, e.offset());
    } catch (Error& e) {
      e.add_context(path);
      throw;
    }
  }

  std::uint64_t expanded_bytes() const override { return candidate_.source->size(); }

  // A pickle has no checksums. Checks that the pickle makes an object.
  VerifyReport check(PendingReads&, Verify) const override {
    read();
    VerifyReport report;
    report.records = 1;
    report.bytes = candidate_.source->size();
    report.has_checksums = false;
    return report;
  }

 private:
  Candidate candidate_;
};

// Protocols 0 and 1 have no mark. The file has to be one pickle from its first byte to its last,
// and its first opcode has to begin an object that a state can be.
bool is_old_pickle(const Candidate& candidate) {
  constexpr std::string_view kFirst = "(]})c";
  const std::string_view start = as_text(candidate.start.view);
  if (start.empty() || kFirst.find(start[0]) == std::string_view::npos) return false;
  try {
    return pickle::pickle_at(*candidate.source, 0).view.size() == candidate.source->size();
  } catch (const CorruptError&) {
    return false;
  }
}

bool is_pickle(const Candidate& candidate) {
  return names_its_protocol(candidate.start.view) || is_old_pickle(candidate);
}

std::unique_ptr<CheckpointSource> open_pickle(Candidate candidate) {
  return std::make_unique<PickleSource>(std::move(candidate));
}

}  // namespace

constinit const FormatRow kPickleFormat = {
    .name = "pickle", .matches = is_pickle, .open = open_pickle};

}  // namespace cairn
