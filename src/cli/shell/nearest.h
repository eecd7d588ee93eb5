// For messages about an unknown word: the word that was probably meant.
#pragma once

#include <string>
#include <vector>

namespace cairn::cli {

// The word of `known` that is nearest to `word`. Empty if no word is near. A word is not near if
// more than a third of the letters, and more than two, would have to change.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace cairn::cli
