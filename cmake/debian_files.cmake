# What Debian wants of a package beyond the installed files: copyright and changelog, compressed man
# pages, and times that do not depend on when it was made. cpack runs this script before it packs
# the folders of the components.
file(READ "${CPACK_CAIRN_DEBIAN}/changelog" changelog)
string(REGEX MATCH "\n -- [^>]*>  ([^\n]*)" unused "${changelog}")
execute_process(COMMAND date -ud "${CMAKE_MATCH_1}" +%s OUTPUT_VARIABLE released
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  set(ENV{SOURCE_DATE_EPOCH} ${released})  # also for what cpack itself adds
endif()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}")
  string(TOUPPER ${component} name)
  set(doc "${root}/usr/share/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME}")
  file(COPY "${CPACK_CAIRN_DEBIAN}/copyright" "${CPACK_CAIRN_DEBIAN}/changelog" DESTINATION "${doc}"
       FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  file(RENAME "${doc}/changelog" "${doc}/changelog.Debian")
  set(overrides "${CPACK_CAIRN_DEBIAN}/${component}/lintian-overrides")
  if(EXISTS "${overrides}")
    file(COPY "${overrides}" DESTINATION "${root}/usr/share/lintian/overrides"
         FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    file(RENAME "${root}/usr/share/lintian/overrides/lintian-overrides"
                "${root}/usr/share/lintian/overrides/${CPACK_DEBIAN_${name}_PACKAGE_NAME}")
  endif()
  # cpack strips only what is installed as a target.
  file(GLOB_RECURSE modules "${root}/usr/lib/python3/*.so")
  if(modules)
    execute_process(COMMAND strip --strip-unneeded ${modules} COMMAND_ERROR_IS_FATAL ANY)
  endif()
  file(GLOB_RECURSE compressed "${root}/usr/share/man/*.[1-9]" "${doc}/changelog.Debian")
  execute_process(COMMAND gzip -9n ${compressed} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND find "${root}" -type d -exec chmod 755 {} +
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND find "${root}" -exec touch -h -d "@$ENV{SOURCE_DATE_EPOCH}" {} +
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
