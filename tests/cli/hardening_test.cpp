// The installed programs and library have the protections of compiler and linker.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "testing/temp_folder.h"

namespace cairn::cli {
namespace {

class Elf {
 public:
  explicit Elf(const std::string& path) : bytes_(testing::read_file(path)) {
    const auto header = at<Elf64_Ehdr>(0);
    EXPECT_EQ(bytes_.substr(0, SELFMAG), ELFMAG) << path;
    EXPECT_EQ(header.e_ident[EI_CLASS], ELFCLASS64);
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
      segments_.push_back(at<Elf64_Phdr>(header.e_phoff + i * header.e_phentsize));
    }
  }

  bool has_segment(std::uint32_t type) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == type) return true;
    }
    return false;
  }
  // The value of an entry of the dynamic section; 0 if there is none.
  std::uint64_t dynamic(std::int64_t tag) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC) continue;
      for (std::uint64_t done = 0; done < segment.p_filesz; done += sizeof(Elf64_Dyn)) {
        const auto entry = at<Elf64_Dyn>(segment.p_offset + done);
        if (entry.d_tag == tag) return entry.d_un.d_val;
      }
    }
    return 0;
  }
  bool has_executable_stack() const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_GNU_STACK) return (segment.p_flags & PF_X) != 0;
    }
    return true;
  }

 private:
  template <class T>
  T at(std::uint64_t offset) const {
    T value{};
    std::memcpy(&value, bytes_.substr(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string bytes_;
  std::vector<Elf64_Phdr> segments_;
};

TEST(HardeningTest, ProgramsAreBoundWhenTheyStartAndTheirTablesAreReadOnly) {
#ifndef CAIRN_IS_BOUND
  GTEST_SKIP() << "built with a sanitizer";
#endif
  for (const char* program : {CAIRN_TOOL, CAIRN_RUN}) {
    const Elf elf(program);
    const bool is_bound =
        (elf.dynamic(DT_FLAGS) & DF_BIND_NOW) != 0 || (elf.dynamic(DT_FLAGS_1) & DF_1_NOW) != 0;
    EXPECT_TRUE(is_bound) << program;
    EXPECT_TRUE(elf.has_segment(PT_GNU_RELRO)) << program;
    EXPECT_FALSE(elf.has_executable_stack()) << program;
  }
}

// The objects must contain the names of libc's checked functions.
TEST(HardeningTest, CallsThatTheCompilerCanBoundAreChecked) {
#ifndef CAIRN_IS_FORTIFIED
  GTEST_SKIP() << "not optimised, or built with a sanitizer";
#endif
  for (const char* file : {CAIRN_TOOL, CAIRN_CORE_ARCHIVE}) {
    const std::string bytes = testing::read_file(file);
    EXPECT_NE(bytes.find("__snprintf_chk"), std::string::npos) << file;
  }
}

}  // namespace
}  // namespace cairn::cli
