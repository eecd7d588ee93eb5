#include <gtest/gtest.h>

#include <cerrno>

#include "testing/faulty_file_system.h"
#include "testing/file_system_conformance.h"
#include "testing/sim_file_system.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

const bool kPosix = testing::register_file_system_tests({
    .name = "PosixFileSystem",
    .open =
        [] {
          auto folder = std::make_shared<testing::TempFolder>();
          return testing::OpenedFileSystem{
              std::shared_ptr<FileSystem>(folder, &posix_file_system()), folder->path()};
        },
});

const bool kSim = testing::register_file_system_tests({
    .name = "SimFileSystem",
    .open =
        [] {
          auto files = std::make_shared<testing::SimFileSystem>();
          files->make_folders("/folder");
          return testing::OpenedFileSystem{files, "/folder"};
        },
});

const bool kSimWithoutLinks = testing::register_file_system_tests({
    .name = "SimFileSystemWithoutLinks",
    .open =
        [] {
          auto files = std::make_shared<testing::SimFileSystem>();
          files->make_folders("/folder");
          files->refuse_links(EPERM);
          return testing::OpenedFileSystem{files, "/folder"};
        },
    .has_links = false,
});

const bool kFaulty = testing::register_file_system_tests({
    .name = "FaultyFileSystem",
    .open =
        [] {
          struct Both {
            testing::TempFolder folder;
            testing::FaultyFileSystem files{posix_file_system()};
          };
          auto both = std::make_shared<Both>();
          return testing::OpenedFileSystem{std::shared_ptr<FileSystem>(both, &both->files),
                                           both->folder.path()};
        },
});

}  // namespace
}  // namespace cairn
