#include "checkpoint/sharded/item_scan.h"

#include <algorithm>
#include <map>

#include "cairn/error.h"

#include "format/dcp/metadata/nesting.h"

namespace cairn::sharded {
namespace {

std::string of_rank(std::uint32_t rank) { return "rank " + std::to_string(rank); }

std::string kind_of(const ItemHeader& item) {
  if (!item.dtype) return "an object";
  return std::string(name(*item.dtype)) + " " + dcp::describe(item.size);
}

// Runs `work`, and adds the rank to its errors.
auto about_rank(std::uint32_t rank, auto&& work) {
  try {
    return work();
  } catch (Error& e) {
    e.add_context(of_rank(rank));
    throw;
  }
}

}  // namespace

AllItems::AllItems(const std::vector<std::string>& names, std::vector<std::string> parts) {
  sort_ranks(std::move(parts));
  const std::vector<Table> tables = tables_of(names);
  // The names that most ranks share come first. If several names are shared by equally many ranks,
  // those of the lowest rank come first.
  const auto most = std::max_element(
      tables.begin(), tables.end(),
      [](const Table& a, const Table& b) { return a.ranks.size() < b.ranks.size(); });
  in_step_ = most->ranks;
  for (ItemHeader& header : parse_names(most->names)) {
    const std::size_t before = headers_.size();
    const std::string fqn = header.fqn;
    if (add(std::move(header), in_step_.front()) == before) continue;
    throw CorruptError(of_rank(in_step_.front()) + " names " + dcp::in_quotes(fqn) + " twice");
  }
  common_ = headers_.size();
  for (const Table& table : tables) {
    if (&table == &*most) continue;
    const Indices items = add_all(parse_names(table.names), table.ranks.front());
    for (const std::uint32_t rank : table.ranks) {
      add_others(rank, {ranks_[rank].entries, 0, ranks_[rank].count}, items);
    }
  }
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    RankParts& has = ranks_[rank];
    const Indices items = add_all(std::move(has.own), rank);
    add_others(rank, {has.own_entries, has.count, has.own_count}, items);
  }
  check_tree();
}

// The different names, each with the ranks that have them. The names of the lowest rank come first.
std::vector<AllItems::Table> AllItems::tables_of(const std::vector<std::string>& names) const {
  std::map<std::string, std::string_view, std::less<>> by_digest;
  for (const std::string& text : names) {
    by_digest.emplace(digest_of_text(text), text);
  }
  std::map<std::string_view, std::size_t> places;
  std::vector<Table> tables;
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const auto found = by_digest.find(ranks_[rank].names_digest);
    if (found == by_digest.end()) {
      throw UsageError("the names of the items of " + of_rank(rank) + " are missing");
    }
    const auto [place, is_new] = places.emplace(found->first, tables.size());
    if (is_new) tables.push_back({found->second, {}});
    tables[place->second].ranks.push_back(rank);
  }
  return tables;
}

AllItems::Indices AllItems::add_all(std::vector<ItemHeader> headers, std::uint32_t rank) {
  Indices items;
  for (ItemHeader& header : headers) {
    items.push_back(add(std::move(header), rank));
  }
  return items;
}

void AllItems::sort_ranks(std::vector<std::string> texts) {
  if (texts.empty()) throw UsageError("a checkpoint needs the description of at least one rank");
  texts_.resize(texts.size());
  for (std::string& text : texts) {
    const RankPlace place = RankParts::parse(text).place;
    if (place.world_size != texts.size()) {
      throw UsageError(of_rank(place.rank) + " says that there are " +
                       std::to_string(place.world_size) + " ranks, but descriptions of " +
                       std::to_string(texts.size()) + " are there");
    }
    if (!texts_[place.rank].empty()) {
      throw UsageError(of_rank(place.rank) + " sent its description twice");
    }
    texts_[place.rank] = std::move(text);
  }
  for (const std::string& text : texts_) {
    ranks_.push_back(RankParts::parse(text));
  }
}

// Returns the number of the item. The item is new, or must have the same path, dtype and size as
// that of another rank.
std::uint32_t AllItems::add(ItemHeader header, std::uint32_t rank) {
  const auto number = static_cast<std::uint32_t>(headers_.size());
  const auto [known, is_new] = by_name_.emplace(header.fqn, number);
  if (is_new) {
    headers_.push_back(std::move(header));
    named_by_.push_back(rank);
    others_.emplace_back();
    return number;
  }
  const ItemHeader& first = headers_[known->second];
  if (first.path == header.path && first.dtype == header.dtype && first.size == header.size) {
    return known->second;
  }
  const bool is_other_path = first.path != header.path;
  const std::string first_rank = of_rank(named_by_[known->second]);
  if (is_other_path) {
    throw UsageError("two items are named " + dcp::in_quotes(header.fqn) +
                     " when their keys are joined by dots, one on " + first_rank + " and one on " +
                     of_rank(rank));
  }
  throw UsageError(dcp::in_quotes(header.fqn) + " is " + kind_of(first) + " on " + first_rank +
                   ", and " + kind_of(header) + " on " + of_rank(rank));
}

void AllItems::add_others(std::uint32_t rank, const Entries& entries, const Indices& items) {
  EntryReader reader(entries.text);
  std::uint64_t number = entries.first;
  about_rank(rank, [&] {
    for (const std::uint32_t item : items) {
      others_[item].push_back({rank, number, reader.rest()});
      reader.next(headers_[item], [&](std::uint64_t, const std::int64_t*) { ++number; });
    }
    if (number == entries.first + entries.count && reader.at_end()) return;
    throw CorruptError("its parts do not fit its names");
  });
}

// Checks that the items of all ranks together make a tree. (The items of each single rank do.)
void AllItems::check_tree() const {
  constexpr std::uint64_t kBudget = std::uint64_t{256} << 20;
  dcp::Nesting tree(kBudget);
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    dcp::Item item{.fqn = headers_[i].fqn};
    for (const auto& part : headers_[i].path) {
      if (const auto* key = std::get_if<std::string>(&part)) {
        item.path.emplace_back(*key);
      } else {
        item.path.emplace_back(std::get<std::int64_t>(part));
      }
    }
    try {
      tree.set(item, Value(true));
    } catch (const CorruptError& e) {
      throw UsageError(of_rank(named_by_[i]) + " has " + dcp::in_quotes(headers_[i].fqn) +
                       ", which does not fit the items of other ranks: " + e.what());
    }
  }
}

std::uint64_t AllItems::memory() const {
  constexpr std::size_t kNode = 64;  // a node of by_name_, and its slot in the table
  std::uint64_t bytes = 0;
  for (const std::string& text : texts_) {
    bytes += text.capacity() + sizeof(std::string) + sizeof(RankParts);
  }
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    const ItemHeader& header = headers_[i];
    bytes += sizeof(ItemHeader) + header.path.capacity() * sizeof(ItemPath::value_type);
    bytes += 3 * header.fqn.capacity();  // in the path, in the name, and in by_name_
    bytes += kNode + sizeof(std::string) + others_[i].capacity() * sizeof(Other);
  }
  return bytes;
}

ItemScan::ItemScan(const AllItems& all) : all_(all) { restart(); }

void ItemScan::restart() {
  next_ = 0;
  cursors_.clear();
  for (const std::uint32_t rank : all_.in_step_) {
    cursors_.push_back({EntryReader(all_.ranks_[rank].entries)});
  }
  if (all_.common_ == 0) check_ends();
}

void ItemScan::go_to(std::size_t item) {
  if (item + 1 == next_) return;
  if (item < next_) restart();
  while (next_ <= item) {
    read_next();
  }
}

void ItemScan::read(std::uint32_t rank, EntryReader& reader, std::uint64_t& number) {
  const std::uint32_t replica = all_.ranks_[rank].place.replica;
  const std::uint64_t end = all_.parts_of(rank);
  reader.next(all_.headers_[next_], [&](std::uint64_t mask, const std::int64_t* cuts) {
    if (number >= end) throw CorruptError("it has more parts than it announced");
    parts_.add({.rank = rank, .replica = replica, .number = number++}, mask, cuts);
  });
}

void ItemScan::read_next() {
  parts_.begin(all_.headers_[next_]);
  if (next_ < all_.common_) {
    for (std::size_t i = 0; i < cursors_.size(); ++i) {
      const std::uint32_t rank = all_.in_step_[i];
      about_rank(rank, [&] { read(rank, cursors_[i].reader, cursors_[i].number); });
    }
  }
  for (const AllItems::Other& other : all_.others_[next_]) {
    EntryReader reader(other.entry);
    std::uint64_t number = other.number;
    read(other.rank, reader, number);
  }
  ++next_;
  if (next_ == all_.common_) check_ends();
}

void ItemScan::check_ends() const {
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    const std::uint32_t rank = all_.in_step_[i];
    if (cursors_[i].reader.at_end() && cursors_[i].number == all_.ranks_[rank].count) continue;
    throw CorruptError(of_rank(rank) + ": its parts do not fit its names");
  }
}

}  // namespace cairn::sharded
