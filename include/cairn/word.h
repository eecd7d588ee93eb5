// Word: an option that is one of a few words: an enumerator, or Composer's word for it, such as
// Precision::kAmpBf16 and "amp_bf16".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// Specialised for each enumeration: kAll holds the words in the order of the enumerators, which
// count from 0.
template <class Enum>
struct WordsOf;

// A std::string, so that programs can read the option as text. If it is none of the words, the
// Trainer or class that uses it throws UsageError.
template <class Enum>
class Word : public std::string {
 public:
  Word() = default;
  // NOLINTBEGIN(google-explicit-constructor): options read like Python
  Word(Enum value) : std::string(WordsOf<Enum>::kAll[static_cast<std::size_t>(value)]) {}
  Word(const char* text) : std::string(text) {}
  Word(std::string text) : std::string(std::move(text)) {}
  // NOLINTEND(google-explicit-constructor)

  // nullopt for a text that is none of the words.
  std::optional<Enum> value() const {
    std::size_t number = 0;
    for (const auto& word : WordsOf<Enum>::kAll) {
      if (*this == word) return static_cast<Enum>(number);
      ++number;
    }
    return std::nullopt;
  }
  friend bool operator==(const Word& word, Enum value) { return word.value() == value; }
};

}  // namespace cairn
