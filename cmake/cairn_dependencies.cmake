# Imported targets for libraries that Debian ships without a CMake package. Used by the build and,
# installed, by cairnConfig.cmake: a static cairn::core hands them on to whoever links it.
foreach(library bz2 crypto deflate lz4 lzma pugixml xxhash z zstd)
  string(TOUPPER "CAIRN_LIB${library}" variable)
  find_library(${variable} ${library})
  mark_as_advanced(${variable})
  if(${variable} AND NOT TARGET cairn::${library})
    add_library(cairn::${library} UNKNOWN IMPORTED)
    set_target_properties(cairn::${library} PROPERTIES IMPORTED_LOCATION "${${variable}}")
  endif()
endforeach()
