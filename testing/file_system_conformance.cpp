#include "testing/file_system_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cairn/error.h"

#include "io/durable/atomic_file.h"
#include "testing/file_bytes.h"

namespace cairn::testing {
namespace {

using ::testing::ElementsAre;

// What every test gets: the file system, and shorthands for its empty folder.
struct Subject {
  FileSystem& files;
  std::string folder;

  std::string path(const std::string& name) const { return folder + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    const auto file = files.create(path(name), {});
    file->write(as_bytes(text));
    file->sync();
    file->close();
  }
  std::string read(const std::string& name) const {
    return std::string(as_text(file_bytes(files, path(name)).view));
  }
};

template <class Call>
int status_of(const Call& call) {
  try {
    call();
  } catch (const StorageError& e) {
    return e.status();
  }
  return 0;
}

void writes_in_order_and_reads_back(const Subject& s) {
  const auto file = s.files.create(s.path("f"), {});
  file->write(as_bytes("one "));
  file->write({});
  file->write(as_bytes("two"));
  file->close();
  file->close();
  EXPECT_EQ(s.read("f"), "one two");
  EXPECT_EQ(s.files.stat(s.path("f"))->size, 7U);
  EXPECT_EQ(s.files.stat(s.path("f"))->type, FileInfo::Type::kRegular);
}

void writing_after_close_is_an_error(const Subject& s) {
  const auto file = s.files.create(s.path("f"), {});
  file->close();
  EXPECT_THROW(file->write(as_bytes("x")), StorageError);
  EXPECT_THROW(file->sync(), StorageError);
}

void create_never_replaces(const Subject& s) {
  s.write("f", "old");
  s.files.make_link("nowhere", s.path("link"));
  EXPECT_EQ(status_of([&] { s.files.create(s.path("f"), {}); }), EEXIST);
  EXPECT_EQ(status_of([&] { s.files.create(s.path("link"), {}); }), EEXIST);
  EXPECT_EQ(status_of([&] { s.files.create(s.path("no/such/f"), {}); }), ENOENT);
  EXPECT_EQ(s.read("f"), "old");
}

// For file systems that can tell who has a file open.
void overwriting_leaves_nothing_of_what_was_there(const Subject& s) {
  s.write("f", "some old text");
  s.write("other", "other");
  auto held = s.files.open(s.path("f"));
  EXPECT_EQ(s.files.overwrite(s.path("f"), 0), nullptr);
  EXPECT_EQ(s.files.overwrite(s.path("missing"), 0), nullptr);
  held.reset();
  const auto before = s.files.stat(s.path("f"));
  auto file = s.files.overwrite(s.path("f"), 0);
  EXPECT_EQ(s.read("f"), "some old text");
  if (file == nullptr) return;
  EXPECT_FALSE(s.files.remove_unlocked(s.path("f")));
  file->write(as_bytes("new"));
  file->sync();
  file->close();
  EXPECT_EQ(s.read("f"), "new");
  EXPECT_EQ(s.files.stat(s.path("f"))->inode, before->inode);
  EXPECT_NE(s.files.stat(s.path("f")), before);
  EXPECT_NE(s.files.stat(s.path("other"))->inode, before->inode);
}

void mapped_bytes_outlive_the_file(const Subject& s) {
  s.write("f", "bytes");
  s.write("empty", "");
  const SharedBytes bytes = file_bytes(s.files, s.path("f"));
  EXPECT_TRUE(s.files.remove(s.path("f")));
  EXPECT_EQ(as_text(bytes.view), "bytes");
  EXPECT_TRUE(file_bytes(s.files, s.path("empty")).view.empty());
}

void map_tells_missing_from_folder(const Subject& s) {
  EXPECT_THROW(file_bytes(s.files, s.path("missing")), NotFoundError);
  EXPECT_THROW(file_bytes(s.files, s.folder), UsageError);
}

void rename_replaces_files_and_links(const Subject& s) {
  s.write("new", "new");
  s.write("old", "old");
  s.files.rename(s.path("new"), s.path("old"));
  EXPECT_EQ(s.read("old"), "new");
  s.files.make_link("elsewhere", s.path("link"));
  s.files.rename(s.path("old"), s.path("link"));
  EXPECT_EQ(s.files.read_link(s.path("link")), std::nullopt);
  EXPECT_THAT(s.files.list(s.folder), ElementsAre("link"));
}

void rename_without_overwrite_keeps_what_is_there(const Subject& s) {
  s.write("new", "new");
  s.write("old", "old");
  s.files.make_link("nowhere", s.path("link"));
  EXPECT_THROW(s.files.rename(s.path("new"), s.path("old"), false), AlreadyExistsError);
  EXPECT_THROW(s.files.rename(s.path("new"), s.path("link"), false), AlreadyExistsError);
  EXPECT_EQ(s.read("old"), "old");
  s.files.rename(s.path("new"), s.path("other"), false);
  EXPECT_THAT(s.files.list(s.folder), ElementsAre("link", "old", "other"));
}

void rename_onto_a_folder_is_a_usage_error(const Subject& s) {
  s.write("f", "f");
  s.files.make_folders(s.path("folder"));
  EXPECT_THROW(s.files.rename(s.path("f"), s.path("folder")), UsageError);
  EXPECT_EQ(status_of([&] { s.files.rename(s.path("missing"), s.path("g")); }), ENOENT);
}

void links_are_followed_only_when_asked(const Subject& s) {
  s.write("f", "bytes");
  s.files.make_link("f", s.path("link"));
  s.files.make_link("gone", s.path("dangling"));
  s.files.make_link("loop", s.path("loop"));
  EXPECT_EQ(s.read("link"), "bytes");
  EXPECT_EQ(s.files.read_link(s.path("link")), "f");
  EXPECT_EQ(s.files.read_link(s.path("f")), std::nullopt);
  EXPECT_EQ(s.files.read_link(s.path("missing")), std::nullopt);
  EXPECT_EQ(s.files.stat(s.path("link"))->type, FileInfo::Type::kRegular);
  EXPECT_EQ(s.files.stat(s.path("link"), false)->type, FileInfo::Type::kLink);
  EXPECT_FALSE(s.files.stat(s.path("dangling")).has_value());
  EXPECT_TRUE(s.files.stat(s.path("dangling"), false).has_value());
  EXPECT_FALSE(s.files.stat(s.path("loop")).has_value());
  EXPECT_EQ(status_of([&] { s.files.make_link("f", s.path("link")); }), EEXIST);
}

void remove_takes_the_link_not_its_target(const Subject& s) {
  s.write("f", "bytes");
  s.files.make_link("f", s.path("link"));
  EXPECT_TRUE(s.files.remove(s.path("link")));
  EXPECT_FALSE(s.files.remove(s.path("link")));
  EXPECT_EQ(s.read("f"), "bytes");
}

void locked_files_are_not_removed_while_their_writer_lives(const Subject& s) {
  auto file = s.files.create(s.path("f"), {.lock = true});
  EXPECT_FALSE(s.files.remove_unlocked(s.path("f")));
  EXPECT_TRUE(s.files.stat(s.path("f")).has_value());
  file.reset();
  EXPECT_TRUE(s.files.remove_unlocked(s.path("f")));
  EXPECT_FALSE(s.files.remove_unlocked(s.path("f")));
  s.files.make_link("f", s.path("link"));
  EXPECT_TRUE(s.files.remove_unlocked(s.path("link")));
}

void locked_folders_are_not_removed_while_their_writer_lives(const Subject& s) {
  s.files.make_folders(s.path("folder"));
  s.write("folder/f", "bytes");
  auto held = s.files.lock_folder(s.path("folder"));
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(s.files.lock_folder(s.path("folder")), nullptr);
  EXPECT_FALSE(s.files.remove_unlocked(s.path("folder")));
  EXPECT_EQ(s.read("folder/f"), "bytes");
  held.reset();
  EXPECT_TRUE(s.files.remove_unlocked(s.path("folder")));
  EXPECT_FALSE(s.files.stat(s.path("folder")).has_value());
  EXPECT_EQ(s.files.lock_folder(s.path("folder")), nullptr);
}

void exchange_swaps_folders_where_it_can(const Subject& s) {
  s.files.make_folders(s.path("a"));
  s.files.make_folders(s.path("b"));
  s.write("a/f", "one");
  s.write("b/f", "two");
  const bool done = s.files.exchange(s.path("a"), s.path("b"));
  EXPECT_EQ(s.read("a/f"), done ? "two" : "one");
  EXPECT_EQ(s.read("b/f"), done ? "one" : "two");
}

void rename_without_overwrite_moves_a_folder_to_a_free_name_only(const Subject& s) {
  s.files.make_folders(s.path("a"));
  s.files.make_folders(s.path("b"));
  s.write("a/f", "one");
  EXPECT_THROW(s.files.rename(s.path("a"), s.path("b"), false), Error);
  s.files.rename(s.path("a"), s.path("c"), false);
  EXPECT_EQ(s.read("c/f"), "one");
}

void folders_are_made_with_their_parents(const Subject& s) {
  s.files.make_folders(s.path("a/b/c"));
  s.files.make_folders(s.path("a/b/c"));
  EXPECT_EQ(s.files.stat(s.path("a/b/c"))->type, FileInfo::Type::kFolder);
  EXPECT_THAT(s.files.list(s.path("a")), ElementsAre("b"));
  s.files.sync_folder(s.path("a/b"));
  s.write("f", "file");
  EXPECT_THROW(s.files.make_folders(s.path("f")), UsageError);
  EXPECT_THROW(s.files.make_folders(s.path("f/below")), UsageError);
}

void only_empty_folders_are_removed(const Subject& s) {
  s.files.make_folders(s.path("a/b"));
  EXPECT_EQ(status_of([&] { s.files.remove_folder(s.path("a")); }), ENOTEMPTY);
  EXPECT_TRUE(s.files.remove_folder(s.path("a/b")));
  EXPECT_FALSE(s.files.remove_folder(s.path("a/b")));
  EXPECT_TRUE(s.files.remove_folder(s.path("a")));
  EXPECT_FALSE(s.files.stat(s.path("a")).has_value());
  s.write("f", "file");
  EXPECT_EQ(status_of([&] { s.files.remove_folder(s.path("f")); }), ENOTDIR);
}

void list_is_sorted_and_tells_missing_from_file(const Subject& s) {
  s.write("b", "");
  s.write("a", "");
  s.files.make_link("nowhere", s.path("c"));
  EXPECT_THAT(s.files.list(s.folder), ElementsAre("a", "b", "c"));
  EXPECT_THROW(s.files.list(s.path("missing")), NotFoundError);
  EXPECT_THROW(s.files.list(s.path("a")), UsageError);
}

// A link in the place of a folder below the root is not followed. `run` is the root, and `run/in`
// is a link to `victim`.
void no_link_below_a_root_is_followed(const Subject& s) {
  s.files.make_folders(s.path("run"));
  s.files.make_folders(s.path("victim/folder"));
  s.write("victim/f", "precious");
  s.files.make_link("../victim", s.path("run/in"));
  s.files.make_link("run", s.path("to run"));
  const FolderPath in(s.path("run"), "in");
  const FilePath f(in, "f");
  const auto status = [](const auto& call) { return status_of(call); };
  EXPECT_EQ(status([&] { s.files.create({in, "new"}, {}); }), ELOOP);
  EXPECT_EQ(s.files.overwrite(f, 0), nullptr);
  EXPECT_EQ(status([&] { s.files.rename(f, f.beside("g")); }), ELOOP);
  EXPECT_EQ(status([&] { s.files.rename(f, f.beside("g"), false); }), ELOOP);
  EXPECT_EQ(status([&] { s.files.make_link("f", f.beside("link")); }), ELOOP);
  EXPECT_EQ(status([&] { s.files.remove(f); }), ELOOP);
  EXPECT_EQ(status([&] { s.files.remove_unlocked(f); }), ELOOP);
  EXPECT_EQ(status([&] { s.files.remove_folder({in, "folder"}); }), ELOOP);
  EXPECT_EQ(status([&] { s.files.sync_folder(in); }), ELOOP);
  EXPECT_EQ(s.files.lock_folder(in), nullptr);
  EXPECT_THROW(s.files.make_folders({s.path("run"), "in"}), UsageError);
  EXPECT_THROW(s.files.make_folders({s.path("run"), "in/new"}), UsageError);
  EXPECT_THAT(s.files.list(s.path("victim")), ElementsAre("f", "folder"));
  EXPECT_EQ(s.read("victim/f"), "precious");
  // The root itself may be reached through a link, and so may a path that is its own root.
  s.files.make_folders({s.path("to run"), "new/deep"});
  s.files.create({{s.path("to run"), "new/deep"}, "f"}, {});
  s.files.create(s.path("run/in/g"), {});
  EXPECT_TRUE(s.files.stat(s.path("run/new/deep/f")).has_value());
  EXPECT_TRUE(s.files.stat(s.path("victim/g")).has_value());
}

void sync_of_a_missing_folder_is_an_error(const Subject& s) {
  EXPECT_EQ(status_of([&] { s.files.sync_folder(s.path("missing")); }), ENOENT);
}

void atomic_file_replaces_on_commit_and_leaves_nothing_else(const Subject& s) {
  s.write("f", "old");
  {
    AtomicFile file(s.files, s.path("f"), {});
    file.write(as_bytes("new"));
    EXPECT_EQ(s.read("f"), "old");
    file.commit();
  }
  EXPECT_EQ(s.read("f"), "new");
  {
    AtomicFile abandoned(s.files, s.path("f"), {});
    abandoned.write(as_bytes("newer"));
  }
  EXPECT_EQ(s.read("f"), "new");
  EXPECT_THAT(s.files.list(s.folder), ElementsAre("f"));
}

void replace_link_swaps_the_link(const Subject& s) {
  EXPECT_TRUE(replace_link(s.files, "a", s.path("latest")));
  EXPECT_TRUE(replace_link(s.files, "b", s.path("latest")));
  EXPECT_EQ(s.files.read_link(s.path("latest")), "b");
  EXPECT_THAT(s.files.list(s.folder), ElementsAre("latest"));
}

void without_links_replace_link_changes_nothing(const Subject& s) {
  s.write("latest", "a copy");
  EXPECT_FALSE(replace_link(s.files, "a", s.path("latest")));
  EXPECT_EQ(s.read("latest"), "a copy");
  EXPECT_EQ(s.files.read_link(s.path("latest")), std::nullopt);
  EXPECT_THAT(s.files.list(s.folder), ElementsAre("latest"));
}

class ConformanceTest : public ::testing::Test {
 public:
  using Body = void (*)(const Subject&);
  ConformanceTest(OpenedFileSystem opened, Body body) : opened_(std::move(opened)), body_(body) {}
  void TestBody() override { body_({*opened_.files, opened_.folder}); }

 private:
  OpenedFileSystem opened_;
  Body body_;
};

}  // namespace

bool register_file_system_tests(const FileSystemConformance& suite) {
  const auto add = [&](const char* name, ConformanceTest::Body body) {
    ::testing::RegisterTest(suite.name.c_str(), name, nullptr, nullptr, __FILE__, __LINE__,
                            [open = suite.open, body]() -> ::testing::Test* {
                              return new ConformanceTest(open(), body);
                            });
  };
#define CAIRN_ADD(body) add(#body, body)
  CAIRN_ADD(writes_in_order_and_reads_back);
  CAIRN_ADD(writing_after_close_is_an_error);
  CAIRN_ADD(overwriting_leaves_nothing_of_what_was_there);
  CAIRN_ADD(mapped_bytes_outlive_the_file);
  CAIRN_ADD(map_tells_missing_from_folder);
  CAIRN_ADD(rename_onto_a_folder_is_a_usage_error);
  CAIRN_ADD(locked_folders_are_not_removed_while_their_writer_lives);
  CAIRN_ADD(exchange_swaps_folders_where_it_can);
  CAIRN_ADD(rename_without_overwrite_moves_a_folder_to_a_free_name_only);
  CAIRN_ADD(folders_are_made_with_their_parents);
  CAIRN_ADD(only_empty_folders_are_removed);
  CAIRN_ADD(sync_of_a_missing_folder_is_an_error);
  CAIRN_ADD(atomic_file_replaces_on_commit_and_leaves_nothing_else);
  if (suite.has_links) {
    CAIRN_ADD(list_is_sorted_and_tells_missing_from_file);
    CAIRN_ADD(locked_files_are_not_removed_while_their_writer_lives);
    CAIRN_ADD(rename_without_overwrite_keeps_what_is_there);
    CAIRN_ADD(create_never_replaces);
    CAIRN_ADD(rename_replaces_files_and_links);
    CAIRN_ADD(links_are_followed_only_when_asked);
    CAIRN_ADD(remove_takes_the_link_not_its_target);
    CAIRN_ADD(no_link_below_a_root_is_followed);
    CAIRN_ADD(replace_link_swaps_the_link);
  } else {
    CAIRN_ADD(without_links_replace_link_changes_nothing);
  }
#undef CAIRN_ADD
  return true;
}

}  // namespace cairn::testing
