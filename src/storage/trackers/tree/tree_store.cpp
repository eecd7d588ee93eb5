// Trees as a store. Pointers, folders and their removal are built from files:
//
//  1. A pointer is Composer's: a file NAME.symlink whose text is the name of another file. Its
//     version is that text, or "broken" if the text names nothing.
//  2. A folder is removed file by file. The files that make it a checkpoint (.metadata, an index)
//     are removed first: without them no reader takes the other files for a checkpoint. The folders
//     go last.
//  3. A write cannot demand a version of the file that it replaces: such a condition is refused.
#include "storage/trackers/tree/tree_store.h"

#include <algorithm>
#include <functional>

#include "cairn/error.h"

#include "core/existing.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/local/links.h"
#include "storage/object_folder.h"
#include "storage/pages.h"
#include "storage/trackers/tree/spooled_write.h"

namespace cairn {
namespace {

struct ReadLink {
  std::string target;  // empty: the text names nothing
  ObjectInfo info;
};

bool is_link_path(const std::string& path) { return path.ends_with(kLinkFile); }

std::string link_path(const std::string& path) {
  return is_link_path(path) ? path : path + std::string(kLinkFile);
}

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace

Tree::Look Tree::look(const std::string& path, const std::string& link, bool may_be_file) {
  Look found;
  if (may_be_file) found.file = find_file(path);
  if (!found.file && !link.empty()) found.link = find_file(link);
  if (!found.file && !found.link) found.is_folder = has_folder(path);
  return found;
}

namespace {

class TreeStore final : public ObjectStore {
 public:
  TreeStore(TreeRouter router, std::string root)
      : router_(std::move(router)), root_(std::move(root)) {}

  std::string describe(const std::string& name) const override {
    return root_ + normal_path("/" + name).substr(1);
  }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    const TreePlace at = router_(name);
    if (at.path.empty()) return ObjectInfo{.type = ObjectInfo::Type::kFolder};
    const Tree::Look there = look_at(at, !is_link_path(at.path));
    if (there.file) return there.file;
    if (const auto link = read_link(at, there.link)) {
      if (!follow) return link->info;
      if (link->target.empty()) return std::nullopt;
      const TreePlace target = router_(link->target);
      return target.tree->find_file(target.path);
    }
    if (there.is_folder) return ObjectInfo{.type = ObjectInfo::Type::kFolder};
    return std::nullopt;
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    const TreePlace at = router_(name);
    Tree::Look there = {.is_folder = at.path.empty()};
    if (!at.path.empty()) {
      const bool may_be_file = !is_link_path(at.path);
      if (auto source = may_be_file ? at.tree->open(at.path) : nullptr) return source;
      there = look_at(at, /*may_be_file=*/false);
    }
    if (const auto link = read_link(at, there.link)) {
      if (link->target.empty()) throw NotFoundError(describe(name) + std::string(kNamesNothing));
      const TreePlace target = router_(link->target);
      if (auto source = target.tree->open(target.path)) return source;
      throw NotFoundError(describe(name) + " points at " + describe(link->target) +
                          ", which is not there");
    }
    if (there.is_folder) {
      throw UsageError(describe(name) + " is a folder, not a file");
    }
    throw NotFoundError("there is no object " + describe(name));
  }

  ListPage list(const std::string& folder, const std::string& page) override {
    const TreePlace at = router_(folder);
    auto listed = list_page(*at.tree, at.path, page);
    if (!listed) {
      if (!at.path.empty() && at.tree->find_file(at.path)) {
        throw UsageError(describe(folder) + " is not a folder");
      }
      if (at.path.empty()) return {};
      throw NotFoundError("there is no folder " + describe(folder));
    }
    for (ListedName& each : listed->names) {
      const bool is_link = is_link_path(each.name) && each.name.size() > kLinkFile.size() &&
                           each.info && each.info->type == ObjectInfo::Type::kObject &&
                           each.info->size <= kLongestLink;
      if (!is_link) continue;
      each.name.resize(each.name.size() - kLinkFile.size());
      each.info = std::nullopt;  // its version is its text
    }
    return *std::move(listed);
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    const TreePlace at = router_(name);
    const bool only_new = options.condition.when == WriteCondition::If::kAbsent;
    Tree::Look there = {.is_folder = at.path.empty()};
    if (!at.path.empty() && only_new) {
      there = at.tree->look(at.path, "", /*may_be_file=*/true);
    } else if (!at.path.empty()) {
      there.is_folder = at.tree->has_folder(at.path);
    }
    if (there.is_folder) {
      throw UsageError("cannot write " + describe(name) + ": a folder has that name");
    }
    if (options.condition.when == WriteCondition::If::kVersion) {
      throw UnsupportedError(describe(name) +
                             ": this server cannot check the version of the replaced file");
    }
    if (only_new && there.file) {
      refuse_existing(at.tree->describe(at.path));
    }
    return std::make_unique<SpooledWrite>(
        SpooledWrite::What{.name = describe(name),
                           .most_bytes = at.tree->largest_file(),
                           .expected_bytes = options.expected_bytes},
        [at, only_new](const SharedBytes& bytes) { at.tree->put(at.path, bytes, only_new); });
  }

  bool remove(const std::string& name) override {
    const TreePlace at = router_(name);
    if (!at.path.empty()) {
      for (const std::string& path : {at.path, link_path(at.path)}) {
        if (at.tree->find_file(path)) return at.tree->remove_file(path);
      }
    }
    if (at.path.empty() || at.tree->has_folder(at.path)) {
      throw UsageError("cannot remove " + describe(name) + " as a file: it is a folder");
    }
    return false;
  }

  bool remove_folder(const std::string& name) override {
    const TreePlace at = router_(name);
    if (at.path.empty()) {
      throw UsageError("cannot remove " + describe(name) + ": it is the whole store");
    }
    std::vector<std::string> files;
    std::vector<std::string> folders;
    if (!gather(*at.tree, at.path, files, folders)) {
      if (at.tree->find_file(at.path) || at.tree->find_file(link_path(at.path))) {
        throw UsageError("cannot remove " + describe(name) +
                         " as a folder: it is a file or a link");
      }
      return false;
    }
    // If one name begins with another, the longer one goes first: MLflow's servers remove by
    // prefixes.
    std::sort(files.begin(), files.end(), std::greater<>());
    std::stable_partition(files.begin(), files.end(), [](const std::string& path) {
      return is_folder_marker(base_name(path));
    });
    for (const std::string& path : files)
      at.tree->remove_file(path);
    for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
      at.tree->remove_folder(*folder);
    return true;
  }

  std::optional<Pointer> read_pointer(const std::string& name) override {
    const auto link = read_link(router_(name));
    if (!link) return std::nullopt;
    return Pointer{.target = link->target, .version = link->info.version};
  }

  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    const TreePlace at = router_(name);
    const auto there = expected ? read_link(at) : std::nullopt;
    if (expected && (there ? there->info.version : "") != *expected) {
      throw AlreadyExistsError(describe(name) + " does not point at \"" + *expected +
                               "\" any more: another program moved it");
    }
    const auto text = std::make_shared<const std::string>(router_(target).name());
    at.tree->put(link_path(at.path), {as_bytes(*text), text}, expected && expected->empty());
  }

 private:
  static Tree::Look look_at(const TreePlace& at, bool may_be_file) {
    return at.tree->look(at.path, link_path(at.path), may_be_file);
  }

  static std::optional<ReadLink> read_link(const TreePlace& at) {
    if (at.path.empty()) return std::nullopt;
    return read_link(at, at.tree->find_file(link_path(at.path)));
  }

  // `info` describes the link's file.
  static std::optional<ReadLink> read_link(const TreePlace& at,
                                           const std::optional<ObjectInfo>& info) {
    if (!info) return std::nullopt;
    const ReadLink broken = {.target = "",
                             .info = {.type = ObjectInfo::Type::kPointer, .version = "broken"}};
    if (info->size > kLongestLink) return broken;  // Opening the file may read all of it.
    const auto source = at.tree->open(link_path(at.path), info);
    if (source == nullptr) return std::nullopt;
    const std::string target = named_by_link(as_text(read_start(*source, kLongestLink + 1).view));
    if (target.empty()) return broken;
    return ReadLink{.target = target,
                    .info = {.type = ObjectInfo::Type::kPointer, .version = target}};
  }

  // Drops names that lead out of the folder or to the folder itself: such names of a server are not
  // trusted.
  static std::optional<ListPage> list_page(Tree& tree, const std::string& folder,
                                           const std::string& page) {
    auto listed = tree.list(folder, page);
    if (!listed) return std::nullopt;
    std::erase_if(listed->names, [](const ListedName& each) {
      return each.name.empty() || has_dot_component(each.name) ||
             each.name.find('/') != std::string::npos;
    });
    return listed;
  }

  // Collects all files and folders below a folder, and the folder itself; a folder comes before its
  // content. False if there is no such folder.
  static bool gather(Tree& tree, const std::string& top, std::vector<std::string>& files,
                     std::vector<std::string>& folders) {
    const std::size_t before = folders.size();
    folders.push_back(top);
    for (std::size_t i = before; i < folders.size(); ++i) {
      const std::string folder = folders[i];
      Pages pages(tree.describe(folder));
      std::optional<ListPage> listed;
      do {
        listed = list_page(tree, folder, pages.now());
        if (!listed) {
          if (i == before) return false;
          break;  // removed meanwhile
        }
        for (const ListedName& each : listed->names) {
          const bool is_folder = each.info && each.info->type == ObjectInfo::Type::kFolder;
          (is_folder ? folders : files).push_back(below(folder, each.name));
        }
      } while (pages.advance(listed->next));
    }
    return true;
  }

  TreeRouter router_;
  std::string root_;
};

}  // namespace

std::shared_ptr<ObjectStore> tree_store(TreeRouter router, std::string root) {
  return std::make_shared<TreeStore>(std::move(router), std::move(root));
}

}  // namespace cairn
