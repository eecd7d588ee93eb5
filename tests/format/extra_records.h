// Extra records of a torch.save file that do not depend on the others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/format/torch_file.h"

namespace cairn::testing {

using NamesAndContents = std::vector<std::pair<std::string, std::string>>;

// They are `extra`; `look`, unless it is null, is called with every record before them.
inline std::unique_ptr<ExtraRecords> extra_records(
    NamesAndContents extra, std::function<void(const FileRecord&)> look = nullptr) {
  class Given final : public ExtraRecords {
   public:
    Given(NamesAndContents extra, std::function<void(const FileRecord&)> look)
        : extra_(std::move(extra)), look_(std::move(look)) {}
    void add(const FileRecord& record) override {
      if (look_) look_(record);
    }
    NamesAndContents finish() override { return std::move(extra_); }

   private:
    NamesAndContents extra_;
    std::function<void(const FileRecord&)> look_;
  };
  return std::make_unique<Given>(std::move(extra), std::move(look));
}

}  // namespace cairn::testing
