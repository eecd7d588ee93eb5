#include "train/state/load/load_findings.h"

namespace cairn {

const Dict* LoadFindings::dict_entry(const Value& saved, const char* key) {
  const Value* entry = saved.find(key);
  if (entry == nullptr) return nullptr;
  if (entry->is_dict()) return &entry->as_dict();
  misfit("state/" + std::string(key) + " is a " + std::string(entry->type_name()) + ", not a dict");
  return nullptr;
}

}  // namespace cairn
