#include "checkpoint/sharded/rank_state.h"

#include <algorithm>
#include <limits>

#include "cairn/error.h"

#include "core/hash/xxh3.h"
#include "format/dcp/flatten.h"
#include "format/pickle/text.h"

namespace cairn::sharded {
namespace {

// The mark before each text: its kind, and the version of its layout.
constexpr std::string_view kNamesMark = "CNames1\n";
constexpr std::string_view kPartsMark = "CParts1\n";
constexpr std::size_t kDigestSize = kSealDigits;
constexpr std::size_t kMaxLevels = 1000;

// Throws for a tensor that as_chunk() would refuse only while the checkpoint is written.
void check_part(const TensorView& tensor) {
  if (tensor.quantizer != nullptr) {
    throw UnsupportedError("a quantized tensor: torch.distributed.checkpoint fails to read one");
  }
  if (tensor.shape.size() > kMaxDims) {
    throw UnsupportedError("a tensor of more than 64 dimensions");
  }
  try {
    check_bounds(tensor);
  } catch (const CorruptError& e) {
    throw UsageError(e.what());  // it is the caller's tensor, not a file
  }
}

// Throws for a name that `.metadata` cannot hold, or that no reader accepts.
void check_name(const std::string& fqn) {
  constexpr std::size_t kMaxBytes = std::size_t{64} << 10;
  if (fqn.size() > kMaxBytes) {
    throw UnsupportedError(dcp::in_quotes(fqn) + "...: a name of more than 64 KiB");
  }
  if (!pickle::is_utf8(fqn)) {
    throw UnsupportedError(dcp::in_quotes(fqn) + ": a name that is not UTF-8");
  }
}

RankState::Item item_of(dcp::FlatItem flat) {
  check_name(flat.fqn);
  RankState::Item item;
  item.header.path = std::move(flat.path);
  item.header.fqn = std::move(flat.fqn);
  const Value& value = *flat.value;
  if (value.is_tensor()) {
    const TensorView& tensor = value.as_tensor();
    try {
      check_part(tensor);
    } catch (Error& e) {
      e.add_context(dcp::in_quotes(item.header.fqn));
      throw;
    }
    item.header.dtype = tensor.dtype;
    item.header.requires_grad = tensor.requires_grad;
    item.header.size = tensor.part ? tensor.part->global_shape : tensor.shape;
  }
  item.parts.push_back(value);
  return item;
}

void write_header(const ItemHeader& item, PackedWriter& out) {
  out.number(item.path.size());
  for (const auto& part : item.path) {
    if (const auto* key = std::get_if<std::string>(&part)) {
      out.number(0);
      out.text(*key);
    } else {
      out.number(1);
      out.number(static_cast<std::uint64_t>(std::get<std::int64_t>(part)));
    }
  }
  out.text(item.dtype ? name(*item.dtype) : std::string_view());
  if (!item.dtype) return;
  out.number(item.requires_grad ? 1 : 0);
  out.number(item.size.size());
  for (const std::int64_t size : item.size) {
    out.number(static_cast<std::uint64_t>(size));
  }
}

std::string names_of(const std::vector<RankState::Item>& items) {
  PackedWriter out;
  out.plain(kNamesMark);
  out.number(items.size());
  for (const RankState::Item& item : items) {
    write_header(item.header, out);
  }
  return out.take();
}

constexpr auto kMaxInt64 = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

ItemHeader read_header(PackedReader& in) {
  ItemHeader item;
  const std::uint64_t levels = in.number(std::min<std::uint64_t>(in.remaining(), kMaxLevels));
  for (std::uint64_t i = 0; i < levels; ++i) {
    if (i > 0) item.fqn += '.';
    if (in.number(1) == 0) {
      item.path.emplace_back(std::string(in.text()));
      item.fqn += std::get<std::string>(item.path.back());
    } else {
      item.path.emplace_back(static_cast<std::int64_t>(in.number(kMaxInt64)));
      item.fqn += std::to_string(std::get<std::int64_t>(item.path.back()));
    }
  }
  const std::string_view dtype = in.text();
  if (dtype.empty()) return item;
  item.dtype = find_dtype(dtype);
  if (!item.dtype) in.fail("names an unknown dtype");
  item.requires_grad = in.number(1) == 1;
  item.size.resize(in.number(kMaxDims));
  for (std::int64_t& size : item.size) {
    size = static_cast<std::int64_t>(in.number(kMaxInt64));
  }
  dcp::box_bytes({.offsets = {}, .sizes = item.size}, *item.dtype);  // throws if it overflows
  return item;
}

void write_part(const ItemHeader& header, const Value& value, PackedWriter& out) {
  std::uint64_t mask = 0;
  PackedWriter cuts;
  if (header.dtype) {
    const TensorView& tensor = value.as_tensor();
    for (std::size_t d = 0; d < header.size.size(); ++d) {
      const std::int64_t offset = tensor.part ? tensor.part->offsets[d] : 0;
      if (offset == 0 && tensor.shape[d] == header.size[d]) continue;
      mask |= std::uint64_t{1} << d;
      cuts.number(static_cast<std::uint64_t>(offset));
      cuts.number(static_cast<std::uint64_t>(tensor.shape[d]));
    }
  }
  out.number(mask);
  out.plain(cuts.take());
}

void write_entries(const std::vector<RankState::Item>& items, PackedWriter& out) {
  PackedWriter entries;
  std::size_t count = 0;
  for (const RankState::Item& item : items) {
    entries.number(item.parts.size());
    for (const Value& part : item.parts) {
      write_part(item.header, part, entries);
    }
    count += item.parts.size();
  }
  out.number(count);
  out.text(entries.take());
}

}  // namespace

RankState::RankState(const RankPlace& place, const Value& tree) : place_(place) {
  if (place.rank >= place.world_size) {
    throw UsageError("rank " + std::to_string(place.rank) + " of " +
                     std::to_string(place.world_size) + " ranks");
  }
  for (dcp::FlatItem& flat : dcp::flatten(tree)) {
    items_.push_back(item_of(std::move(flat)));
  }
}

void RankState::add_part(std::string_view fqn, const TensorView& part) {
  const auto item = std::find_if(items_.begin(), items_.end(),
                                 [&](const Item& each) { return each.header.fqn == fqn; });
  const std::string in_quotes = dcp::in_quotes(fqn);
  if (item == items_.end())
    throw UsageError("a further part of " + in_quotes + ", which is not in the state");
  check_part(part);
  if (item->header.dtype != part.dtype || part.part == nullptr ||
      part.part->global_shape != item->header.size) {
    throw UsageError("a further part of " + in_quotes + " that is not a part of a tensor of size " +
                     dcp::describe(item->header.size));
  }
  item->parts.emplace_back(part);
}

void RankState::add_own(const std::string& list, const Value& value) {
  const Value tree = Dict{{list, Dict{{place_.rank, value}}}};
  for (dcp::FlatItem& flat : dcp::flatten(tree)) {
    flat.path[1] = static_cast<std::int64_t>(place_.rank);
    own_.push_back(item_of(std::move(flat)));
  }
}

std::string digest_of_text(std::string_view text) {
  Xxh3 hash;
  hash.write(as_bytes(text));
  return hash.digest128();
}

Description describe(const RankState& state) {
  Description description{.names = names_of(state.items()), .parts = {}};
  PackedWriter parts;
  parts.plain(kPartsMark);
  parts.number(state.place().rank);
  parts.number(state.place().world_size);
  parts.number(state.place().replica);
  parts.plain(digest_of_text(description.names));
  write_entries(state.items(), parts);
  parts.text(names_of(state.own_items()));
  write_entries(state.own_items(), parts);
  description.parts = parts.take();
  return description;
}

std::vector<ItemHeader> parse_names(std::string_view names) {
  PackedReader in(names, "the list of items that a rank has");
  in.expect_mark(kNamesMark);
  std::vector<ItemHeader> items;
  for (std::size_t count = in.count(); count > 0; --count) {
    items.push_back(read_header(in));
  }
  in.expect_end();
  return items;
}

RankParts RankParts::parse(std::string_view parts) {
  PackedReader in(parts, "the description of a rank's parts");
  in.expect_mark(kPartsMark);
  constexpr std::uint64_t kMaxRanks = std::uint64_t{1} << 24;
  RankParts rank;
  rank.place.rank = static_cast<std::uint32_t>(in.number(kMaxRanks));
  rank.place.world_size = static_cast<std::uint32_t>(in.number(kMaxRanks));
  rank.place.replica = static_cast<std::uint32_t>(in.number(kMaxRanks));
  if (rank.place.rank >= rank.place.world_size) in.fail("is of a rank that does not exist");
  rank.names_digest = in.plain(kDigestSize);
  rank.count = in.count();
  rank.entries = in.text();
  rank.own = parse_names(in.text());
  rank.own_count = in.count();
  rank.own_entries = in.text();
  in.expect_end();
  return rank;
}

void EntryReader::fail(const ItemHeader& item, const char* where) {
  throw CorruptError("a rank has a part of " + dcp::in_quotes(item.fqn) + " " + where);
}

}  // namespace cairn::sharded
