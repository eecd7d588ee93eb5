// Removes the temporary files of killed saves.
#pragma once

#include <string>
#include <vector>

#include "cairn/checkpoint/names.h"
#include "cairn/storage/object_store.h"

namespace cairn {

// Removes the temporary files of dead writers from the folders that can contain names of these
// formats: `folder`, and for "ep{epoch}/ba{batch}.pt" only the folders "ep<number>" in `folder`.
// Returns the paths of the removed files relative to `folder`.
std::vector<std::string> remove_leftovers_of_formats(ObjectStore& store, const std::string& folder,
                                                     const std::vector<NameFormat>& formats,
                                                     const FormatVariables& dist);

}  // namespace cairn
