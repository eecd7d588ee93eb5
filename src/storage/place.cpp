#include "storage/place.h"

#include "io/uri.h"

namespace cairn {

std::shared_ptr<ObjectStore> store_of(const std::string& place,
                                      const std::shared_ptr<ObjectStore>& given) {
  if (given != nullptr) return given;
  refuse_uri(place);
  return local_store();
}

}  // namespace cairn
