// Temporary files that saves left which were killed.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"

namespace cairn {

// Removes the temporary files of dead writers from the folders that names of these formats lie in:
// `folder`, and for "ep{epoch}/ba{batch}.pt" the folders "ep<number>" in it, and no others. Returns
// their paths from `folder`.
std::vector<std::string> remove_leftovers_of_formats(ObjectStore& store, const std::string& folder,
                                                     const std::vector<NameFormat>& formats,
                                                     const FormatVariables& dist);

}  // namespace cairn
