#include "cairn/storage/object_store_checks.h"

#include <algorithm>
#include <array>
#include <set>
#include <thread>

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

// The store, and shorthands for the folder.
struct Subject {
  ObjectStore& store;
  std::string folder;

  std::string path(const std::string& name) const { return join_path(folder, name); }
  void write(const std::string& name, const std::string& text,
             const WriteCondition& condition = {}) const {
    const auto object = store.begin(path(name), {.condition = condition});
    object->write(as_bytes(text));
    object->commit();
  }
  std::string read(const std::string& name) const {
    return std::string(as_text(read_all(*store.open(path(name))).view));
  }
  bool is_flat() const { return store.features().flat_names; }
  std::string version(const std::string& name) const {
    const auto info = store.stat(path(name));
    return info ? info->version : "";
  }
};

void expect(bool holds, const std::string& what) {
  if (!holds) throw ObjectStoreFailure("expected: " + what);
}

template <class T>
void expect_equal(const T& found, const T& expected, const std::string& what) {
  if (found == expected) return;
  if constexpr (std::is_same_v<T, std::string>) {
    throw ObjectStoreFailure(what + ": expected \"" + expected + "\", found \"" + found + "\"");
  }
  throw ObjectStoreFailure(what + " is not what was expected");
}

template <class Expected, class Call>
void expect_error(const Call& call, const std::string& what) {
  try {
    call();
  } catch (const Expected&) {
    return;
  } catch (const std::exception& e) {
    throw ObjectStoreFailure(what + ": the error has the wrong type: " + e.what());
  }
  throw ObjectStoreFailure(what + ": expected an error, there was none");
}

void commit_publishes_all_bytes(const Subject& s) {
  const auto object = s.store.begin(s.path("a.pt"));
  object->write(as_bytes("one "));
  object->write({});
  object->write(as_bytes("two"));
  object->make_durable();
  expect(!s.store.stat(s.path("a.pt")), "nothing has the name before the commit");
  object->commit();
  expect_equal(s.read("a.pt"), std::string("one two"), "the object");
  const auto info = s.store.stat(s.path("a.pt"));
  expect(info && info->type == ObjectInfo::Type::kObject, "stat() reports an object");
  expect(info->size == 7, "stat() reports its size");
  s.write("empty", "");
  expect_equal(s.read("empty"), std::string(), "an empty object");
}

void uncommitted_objects_are_invisible(const Subject& s) {
  s.write("a", "old");
  {
    const auto object = s.store.begin(s.path("a"));
    object->write(as_bytes("new"));
    const auto other = s.store.begin(s.path("b"));
    other->write(as_bytes("new"));
    expect(list_names(s.store, s.folder) == std::vector<std::string>{"a"},
           "list() hides what is being written");
  }
  expect_equal(s.read("a"), std::string("old"), "an object whose replacement was abandoned");
  expect(list_names(s.store, s.folder) == std::vector<std::string>{"a"},
         "nothing is left of what was abandoned");
}

void bytes_can_be_placed_in_any_order(const Subject& s) {
  const auto piece = [](const char* text) {
    const auto owner = std::make_shared<const std::string>(text);
    return SharedBytes{as_bytes(*owner), owner};
  };
  const auto object = s.store.begin(s.path("a"));
  object->write_at(6, piece("ghi"));
  object->write_at(3, piece("def"));
  object->write_at(0, piece("abc"));
  object->commit();
  expect_equal(s.read("a"), std::string("abcdefghi"), "an object of placed pieces");
  const auto gap = s.store.begin(s.path("b"));
  gap->write_at(3, piece("def"));
  expect_error<UsageError>([&] { gap->commit(); }, "committing an object with a gap");
  const auto twice = s.store.begin(s.path("b"));
  twice->write_at(3, piece("def"));
  expect_error<UsageError>(
      [&] {
        twice->write_at(2, piece("xy"));
        twice->write_at(0, piece("ab"));
        twice->commit();
      },
      "placing a byte twice");
  expect(!s.store.stat(s.path("b")), "nothing is left of what was refused");
}

void opened_versions_stay(const Subject& s) {
  s.write("a", "old bytes");
  const auto source = s.store.open(s.path("a"));
  s.write("a", "new");
  expect(source->size() == 9, "a source keeps the size of what was opened");
  std::string text;
  try {
    text = std::string(as_text(source->view(4, 5).view));
  } catch (const StorageError&) {
    return;  // The source may refuse, but must not show bytes of another object.
  }
  expect_equal(text, std::string("bytes"), "a source of an object that was replaced");
}

void reads_ranges(const Subject& s) {
  s.write("a", "0123456789");
  const auto source = s.store.open(s.path("a"));
  std::string one(3, ' ');
  std::string two(2, ' ');
  const std::array<ByteSource::Range, 2> ranges = {
      ByteSource::Range{7, std::as_writable_bytes(std::span(one))},
      ByteSource::Range{0, std::as_writable_bytes(std::span(two))}};
  source->read(ranges);
  expect_equal(one + two, std::string("78901"), "two ranges");
  expect_error<UsageError>([&] { source->view(8, 3); }, "reading beyond the end");
}

void missing_objects_are_reported(const Subject& s) {
  expect(!s.store.stat(s.path("none")), "stat() of a missing name returns nothing");
  expect_error<NotFoundError>([&] { s.store.open(s.path("none")); }, "opening nothing");
  expect_error<NotFoundError>([&] { s.store.list(s.path("none")); }, "listing no folder");
  expect(!s.store.remove(s.path("none")), "remove() of nothing is false");
  expect(!s.store.remove_folder(s.path("none")), "remove_folder() of nothing is false");
  expect(!s.store.read_pointer(s.path("none")), "read_pointer() of a missing name returns nothing");
  s.write("a", "x");
  expect(!s.store.read_pointer(s.path("a")), "an object is no pointer");
  expect_error<UsageError>([&] { s.store.list(s.path("a")); }, "listing an object");
}

void folders_come_with_their_names(const Subject& s) {
  s.write("ep1/ba2.pt", "x");
  s.write("ep1.pt", "x");
  if (s.is_flat()) {
    expect(list_names(s.store, s.folder) == std::vector<std::string>{"ep1.ba2.pt", "ep1.pt"},
           "list() gives all that is below a name");
    expect_error<UnsupportedError>([&] { s.store.remove_folder(s.path("ep1")); },
                                   "remove_folder() of what is no folder for sure");
    expect_equal(s.read("ep1/ba2.pt") + s.read("ep1.pt"), std::string("xx"), "what was refused");
    return;
  }
  expect(list_names(s.store, s.folder) == std::vector<std::string>{"ep1", "ep1.pt"},
         "list() gives what is directly in a folder");
  expect(list_names(s.store, s.path("ep1")) == std::vector<std::string>{"ba2.pt"},
         "list() of the folder below");
  expect(is_folder(s.store, s.path("ep1")), "stat() reports a folder");
  expect_error<UsageError>([&] { s.store.open(s.path("ep1")); }, "opening a folder");
  expect_error<UsageError>([&] { s.write("ep1", "x"); }, "an object with a folder's name");
  expect_error<UsageError>([&] { s.store.remove(s.path("ep1")); }, "remove() of a folder");
  expect_error<UsageError>([&] { s.store.remove_folder(s.path("ep1.pt")); },
                           "remove_folder() of an object");
}

void long_folders_are_listed_whole(const Subject& s) {
  std::set<std::string> expected;
  for (int i = 0; i < 1100; ++i) {
    const bool is_below = i % 100 == 0 && !s.is_flat();
    const std::string name = "n" + std::to_string(i) + (is_below ? "/below" : "");
    s.write(name, "x");
    expected.insert(name.substr(0, name.find('/')));
  }
  const auto names = list_names(s.store, s.folder);
  expect(std::set<std::string>(names.begin(), names.end()) == expected, "list() gives all names");
  expect(names.size() == expected.size(), "list() gives each name once");
}

void absent_is_a_condition(const Subject& s) {
  s.write("a", "first", WriteCondition::absent());
  expect_error<AlreadyExistsError>([&] { s.write("a", "second", WriteCondition::absent()); },
                                   "writing what is there on condition that it is not");
  const auto one = s.store.begin(s.path("b"), {.condition = WriteCondition::absent()});
  one->write(as_bytes("one"));
  s.write("b", "two");
  expect_error<AlreadyExistsError>([&] { one->commit(); },
                                   "committing a name that another writer took meanwhile");
  expect_equal(s.read("a") + s.read("b"), std::string("firsttwo"), "the objects");
}

void a_version_is_a_condition(const Subject& s) {
  s.write("a", "one");
  const std::string first = s.version("a");
  expect(!first.empty(), "an object has a version");
  if (!s.store.features().versioned_writes) {
    expect_error<UnsupportedError>([&] { s.write("a", "two", WriteCondition::of_version(first)); },
                                   "a condition that the store cannot check");
    return;
  }
  s.write("a", "two", WriteCondition::of_version(first));
  expect(s.version("a") != first, "another content has another version");
  expect_error<AlreadyExistsError>(
      [&] { s.write("a", "three", WriteCondition::of_version(first)); },
      "replacing an older version");
  expect_equal(s.read("a"), std::string("two"), "the object");
}

void pointers_lead_to_objects(const Subject& s) {
  const std::string other = s.is_flat() ? "b" : "below/b";
  s.write("a", "bytes of a");
  s.write(other, "bytes of b");
  s.store.move_pointer(s.path("latest"), s.path("a"));
  expect_equal(s.read("latest"), std::string("bytes of a"), "what the pointer leads to");
  s.store.move_pointer(s.path("latest"), s.path(other));
  expect_equal(s.read("latest"), std::string("bytes of b"), "the pointer that was moved");
  const auto pointer = s.store.read_pointer(s.path("latest"));
  expect(pointer.has_value(), "read_pointer() reads it");
  expect_equal(normal_path(pointer->target), normal_path(s.path(other)), "its target");
  const auto itself = s.store.stat(s.path("latest"), /*follow=*/false);
  expect(itself && itself->type == ObjectInfo::Type::kPointer, "stat() reports a pointer");
  const auto led_to = s.store.stat(s.path("latest"));
  expect(led_to && led_to->size == 10 && led_to->type == ObjectInfo::Type::kObject,
         "stat() follows a pointer");
  const auto names = list_names(s.store, s.folder);
  expect(names == std::vector<std::string>{"a", other.substr(0, other.find('/')), "latest"},
         "list() gives its name");
  s.store.remove(s.path(other));
  expect(!s.store.stat(s.path("latest")), "a pointer to nothing leads to nothing");
  expect_error<NotFoundError>([&] { s.store.open(s.path("latest")); },
                              "opening what a pointer to nothing leads to");
  expect(s.store.remove(s.path("latest")), "a pointer can be removed");
  expect(!s.store.read_pointer(s.path("latest")), "a pointer that was removed is gone");
  expect_equal(s.read("a"), std::string("bytes of a"), "what a pointer led to once");
}

void pointers_move_under_a_condition(const Subject& s) {
  s.write("a", "a");
  s.write("b", "b");
  s.store.move_pointer(s.path("latest"), s.path("a"), "");
  const auto first = s.store.read_pointer(s.path("latest"));
  expect_error<AlreadyExistsError>([&] { s.store.move_pointer(s.path("latest"), s.path("b"), ""); },
                                   "making a pointer that is there");
  s.store.move_pointer(s.path("latest"), s.path("b"), first->version);
  expect_error<AlreadyExistsError>(
      [&] { s.store.move_pointer(s.path("latest"), s.path("a"), first->version); },
      "moving a pointer that another writer has moved");
  expect_equal(s.read("latest"), std::string("b"), "the pointer");
}

void removed_things_are_gone(const Subject& s) {
  s.write("a", "x");
  const std::string part = s.is_flat() ? "ck/__0_0.distcp" : "ck/inside/b";
  s.write("ck/.metadata", "x");
  s.write(part, "x");
  s.write("ck2/c", "x");
  expect(s.store.remove(s.path("a")), "remove() of an object is true");
  expect(!s.store.stat(s.path("a")), "an object that was removed is gone");
  expect(s.store.remove_folder(s.path("ck")), "remove_folder() of a folder is true");
  expect(!s.store.stat(s.path("ck")), "a folder that was removed is gone");
  expect(!s.store.stat(s.path(part)), "the objects of a removed folder are gone");
  expect_equal(s.read("ck2/c"), std::string("x"), "another folder that begins the same");
}

void objects_can_be_renamed(const Subject& s) {
  s.write("a", "bytes");
  s.write("b", "old");
  s.store.rename(s.path("a"), s.path("b"));
  expect(!s.store.stat(s.path("a")), "the old name is gone");
  expect_equal(s.read("b"), std::string("bytes"), "the object under its new name");
  s.store.rename(s.path("b"), s.path("b"));
  expect_equal(s.read("b"), std::string("bytes"), "an object that was renamed to its own name");
}

void objects_can_be_copied(const Subject& s) {
  s.write("a", "bytes");
  s.write("b", "old");
  s.store.copy(s.path("a"), s.path("c"), WriteCondition::absent());
  expect_equal(s.read("c"), std::string("bytes"), "the copy");
  expect_equal(s.read("a"), std::string("bytes"), "what was copied");
  expect_error<AlreadyExistsError>(
      [&] { s.store.copy(s.path("a"), s.path("b"), WriteCondition::absent()); },
      "copying to a name that is taken");
  expect_equal(s.read("b"), std::string("old"), "what had the name");
  const std::string version = s.store.stat(s.path("a"))->version;
  s.store.copy(s.path("a"), s.path("b"), {}, version);
  expect_equal(s.read("b"), std::string("bytes"), "the copy in its place");
  s.store.copy(s.path("b"), s.path("b"));
  expect_equal(s.read("b"), std::string("bytes"), "an object that was copied to its own name");
  expect_error<NotFoundError>([&] { s.store.copy(s.path("none"), s.path("d")); },
                              "copying what is not there");
  s.write("a", "later bytes");
  const bool has_changed = s.store.stat(s.path("a"))->version != version;
  if (has_changed) {
    expect_error<StorageError>([&] { s.store.copy(s.path("a"), s.path("d"), {}, version); },
                               "copying a version that is not there any more");
  }
  expect(!s.store.stat(s.path("d")), "nothing has the name of a copy that failed");
}

void add_to(FolderWrite& folder, const std::string& name, const std::string& text) {
  const auto object = folder.begin(name, text.size());
  object->write_at(0, {as_bytes(text), nullptr});
  object->commit();
}

void folders_appear_at_once(const Subject& s) {
  const bool are_whole = s.store.features().whole_folders;
  const auto folder = s.store.begin_folder(s.path("ck"), false);
  add_to(*folder, "__0_0.distcp", "1");
  add_to(*folder, ".metadata", "m");
  const auto added = folder->open("__0_0.distcp");
  expect_equal(std::string(as_text(added->view(0, added->size()).view)), std::string("1"),
               "what was added");
  expect(!s.store.stat(s.path("ck/.metadata")), "no checkpoint before the commit");
  expect(!are_whole || !s.store.stat(s.path("ck")), "nothing has the name before the commit");
  folder->commit();
  expect(list_names(s.store, s.path("ck")) == std::vector<std::string>{".metadata", "__0_0.distcp"},
         "all that was added is there");
  expect_error<AlreadyExistsError>([&] { s.store.begin_folder(s.path("ck"), false)->commit(); },
                                   "a folder that is there");
}

void folders_can_be_replaced(const Subject& s) {
  const auto folder = s.store.begin_folder(s.path("ck"), false);
  add_to(*folder, "__0_0.distcp", "1");
  add_to(*folder, ".metadata", "m");
  folder->commit();
  const auto other = s.store.begin_folder(s.path("ck"), true);
  add_to(*other, "__0_1.distcp", "2");
  other->commit();
  expect(list_names(s.store, s.path("ck")) == std::vector<std::string>{"__0_1.distcp"},
         "another folder in its place");
}

// A store that checks its write may find that another thread has moved the pointer. If that
// thread's answer was lost, that thread may have written the same target again. To the store this
// looks as if nothing was written, so the store throws a retryable error.
void move_shared_pointer(const Subject& s, const std::string& name) {
  for (int attempt = 1;; ++attempt) {
    try {
      s.store.move_pointer(s.path("latest"), s.path(name));
      return;
    } catch (const StorageError& e) {
      if (!e.retryable() || attempt == 3) throw;
    }
  }
}

void several_threads_may_work(const Subject& s) {
  std::array<std::string, 4> found;
  std::vector<std::jthread> threads;  // last: joined before the other variables are destroyed
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&s, i, &found] {
      try {
        const std::string name = "of" + std::to_string(i);
        for (int round = 0; round < 10; ++round) {
          s.write(name, name + "/" + std::to_string(round));
          move_shared_pointer(s, name);
        }
        found[i] = s.read(name);
      } catch (const std::exception& e) {
        found[i] = e.what();
      }
    });
  }
  threads.clear();
  for (std::size_t i = 0; i < found.size(); ++i) {
    expect_equal(found[i], "of" + std::to_string(i) + "/9", "what a thread wrote last");
  }
  expect(s.read("latest").ends_with("/9"), "the pointer leads to a whole object");
}

template <void (*Check)(const Subject&)>
void run(ObjectStore& store, const std::string& folder) {
  Check({store, folder});
}

constexpr std::array kChecks = {
    ObjectStoreCheck{"CommitPublishesAllBytes", run<commit_publishes_all_bytes>},
    ObjectStoreCheck{"WhatIsNotCommittedIsNotThere", run<uncommitted_objects_are_invisible>},
    ObjectStoreCheck{"BytesCanBePlacedInAnyOrder", run<bytes_can_be_placed_in_any_order>},
    ObjectStoreCheck{"WhatWasOpenedStays", run<opened_versions_stay>},
    ObjectStoreCheck{"ReadsRanges", run<reads_ranges>},
    ObjectStoreCheck{"MissingThingsAreTold", run<missing_objects_are_reported>},
    ObjectStoreCheck{"FoldersComeWithTheirNames", run<folders_come_with_their_names>},
    ObjectStoreCheck{"LongFoldersAreListedWhole", run<long_folders_are_listed_whole>},
    ObjectStoreCheck{"AbsentIsACondition", run<absent_is_a_condition>},
    ObjectStoreCheck{"AVersionIsACondition", run<a_version_is_a_condition>},
    ObjectStoreCheck{"PointersLeadToObjects", run<pointers_lead_to_objects>},
    ObjectStoreCheck{"PointersMoveUnderACondition", run<pointers_move_under_a_condition>},
    ObjectStoreCheck{"RemovedThingsAreGone", run<removed_things_are_gone>},
    ObjectStoreCheck{"ObjectsCanBeRenamed", run<objects_can_be_renamed>},
    ObjectStoreCheck{"ObjectsCanBeCopied", run<objects_can_be_copied>},
    ObjectStoreCheck{"FoldersAppearAtOnce", run<folders_appear_at_once>},
    ObjectStoreCheck{"FoldersCanBeReplaced", run<folders_can_be_replaced>},
    ObjectStoreCheck{"SeveralThreadsMayWork", run<several_threads_may_work>},
};

}  // namespace

std::span<const ObjectStoreCheck> object_store_checks() { return kChecks; }

}  // namespace cairn
