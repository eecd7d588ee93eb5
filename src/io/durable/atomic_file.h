// Publishes a file so that its name never stands for an incomplete file.
//
//  1. Create `<folder>/.cairn-tmp-<name>-<random>` beside the target, because a rename across file
//     systems would not be atomic. Lock it, so that a cleaner can tell a living writer from a dead
//     one. Or, instead of creating a file, overwrite a spare file that has such a name already
//     (spare_file.h).
//  2. Write the bytes.
//  3. fdatasync the file. A rename before this may publish an empty file after a power cut.
//  4. rename it over the target: readers see the old file or the new one. The new file stays open,
//     and so locked, until it has its final name.
//  5. fsync the folder. Until then a power cut may bring the old file back.
//
// commit() does 3 to 5 and returns when the file is durable. The destructor removes the temporary
// file and publishes nothing. A failed fsync is never retried: the file is abandoned. If step 5
// fails, commit() throws: the new file has its name but may be gone after a power cut.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace cairn {

class SpareFile;

class AtomicFile final : public ByteSink {
 public:
  struct Options {
    bool overwrite = true;  // false: commit() throws AlreadyExistsError if the target exists
    std::uint64_t expected_bytes = 0;
    bool is_private = false;     // as in CreateOptions; only for a new file
    SpareFile* spare = nullptr;  // in the folder of `path`; overwritten if that is allowed
  };

  AtomicFile(FileSystem& files, FilePath path, const Options& options);
  ~AtomicFile() override;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(ByteView bytes) override;
  // As WritableFile::write_shared().
  void write_shared(const SharedBytes& bytes);
  // Step 3 before commit(), for a caller that must know that the file can be published. Write
  // nothing after it.
  void sync();
  // Publishes. Call at most once.
  void commit();
  const FilePath& path() const { return path_; }

 private:
  FileSystem& files_;
  FilePath path_;
  std::optional<FilePath> temporary_;  // until it has its final name
  Options options_;
  std::unique_ptr<WritableFile> file_;
  bool is_synced_ = false;
};

// Points the symbolic link `link` at `target` (its text, relative to the link's folder). Creates a
// new link under a temporary name, renames it over the old one, and fsyncs the folder. There is no
// moment without a link. Returns false, with nothing changed, if there are no symbolic links here.
bool replace_link(FileSystem& files, const std::string& target, const FilePath& link);

// Finishes replacements of folders (atomic_folder.h) in `folder`. Then removes the temporary files
// and folders of dead writers, and returns their names. A missing folder has no leftovers.
// Leftovers that cannot be removed stay.
std::vector<std::string> remove_leftovers(FileSystem& files, const FolderPath& folder);

// As above, only for the leftovers that were to become `path`.
void remove_leftovers_of(FileSystem& files, const FilePath& path);

// Removes a file if possible. A temporary file that remains is a leftover.
void remove_quietly(FileSystem& files, const FilePath& path);

// Makes a new name, beside `target` (a path or a name), for the file that is to become `target`.
std::string temporary_name(const std::string& target);
FilePath temporary_path(const FilePath& target);
// Draws 16 hexadecimal digits. No other call, in any process, draws the same.
std::string random_digits();

// The random part at the end of a temporary name: "-0123456789abcdef".
std::string_view temporary_suffix(std::string_view temporary);
// Returns the temporary name for `target` with `suffix` as its random part.
FilePath temporary_path(const FilePath& target, std::string_view suffix);

// Whether `name` is a temporary name, as AtomicFile, AtomicFolder and replace_link() make them.
bool is_temporary_name(std::string_view name);

// The name of a folder while another folder replaces it: ".cairn-old-<name>-<random>".
FilePath replaced_path(const FilePath& target, std::string_view suffix);
// Returns <name> if `name` is such a name, otherwise nullopt.
std::optional<std::string> name_before_replacement(std::string_view name);

}  // namespace cairn
