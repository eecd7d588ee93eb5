# cpack makes Debian packages, one of each component; docs/packages.md says how. The libraries'
# packages hold libcairn.so, so they need BUILD_SHARED_LIBS; the tool's and the documents' do not.
file(STRINGS "${PROJECT_SOURCE_DIR}/cmake/debian/changelog" entry LIMIT_COUNT 1)
if(NOT entry MATCHES "^cairn \\(${PROJECT_VERSION}-([0-9]+)\\)")
  message(FATAL_ERROR "cmake/debian/changelog begins with \"${entry}\", and this is cairn "
                      "${PROJECT_VERSION}: add an entry for it")
endif()
set(CPACK_DEBIAN_PACKAGE_RELEASE ${CMAKE_MATCH_1})
set(version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cairn)
# The value of CPack itself for "none": each package has a summary of its own.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_NAME} built using CMake")
set(CPACK_PACKAGE_VENDOR "The cairn maintainers")
set(CPACK_PACKAGE_CONTACT
    "The cairn maintainers <maintainers@users.noreply.a-seed-226163e5.example>")
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")  # as long as the soname stays
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake")
set(CPACK_CAIRN_DEBIAN "${PROJECT_SOURCE_DIR}/cmake/debian")

# cairn_package(COMPONENT NAME SECTION SUMMARY TEXT [FIELD VALUE ...])
set(CPACK_COMPONENTS_ALL)
macro(cairn_package component name section summary text)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${text}")
  set(fields ${ARGN})
  while(fields)
    list(POP_FRONT fields field value)
    set(CPACK_DEBIAN_${upper}_${field} "${value}")
  endwhile()
endmacro()

cairn_package(tool cairn utils "tool for checkpoints of PyTorch, without Python"
  "Lists, verifies, compares, converts, copies and prunes checkpoints. It reads
torch.save files, safetensors and folders of torch.distributed.checkpoint, in
folders and in object stores. cairn-run starts the processes of a training job."
  PACKAGE_RECOMMENDS "libcurl4, openssh-client")
if(BUILD_SHARED_LIBS)
  cairn_package(runtime libcairn0 libs "training that survives, on libtorch (library)"
    "Saves checkpoints that torch.load opens, atomically and durably, and resumes
training from them bit for bit."
    PACKAGE_RECOMMENDS "libcurl4, libopenblas0-openmp, openssh-client"
    PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/cmake/debian/triggers")
  cairn_package(development libcairn-dev libdevel
    "training that survives, on libtorch (development files)"
    "Headers, files for CMake and pkg-config, and examples. Programs that use only
cairn::core need no libtorch-dev."
    PACKAGE_DEPENDS "libcairn0 (= ${version})" PACKAGE_RECOMMENDS "libtorch-dev, libgloo-dev")
endif()
if(TARGET cairn_c)
  cairn_package(python python3-cairn python "checkpoints of PyTorch, saved fast and safely"
    "Saves what torch.save takes, atomically, durably and in the background, and
verifies what it loads. It runs nothing that a file holds."
    PACKAGE_DEPENDS "python3 (>= 3.11)" PACKAGE_RECOMMENDS "libcurl4, python3-numpy"
    PACKAGE_SUGGESTS "python3-torch")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
      "${PROJECT_SOURCE_DIR}/cmake/debian/python/postinst"
      "${PROJECT_SOURCE_DIR}/cmake/debian/python/prerm")
endif()
cairn_package(doc cairn-doc doc "training that survives, on libtorch (documents)"
  "The guides and the reference of cairn, its tool and its formats."
  PACKAGE_ARCHITECTURE all PACKAGE_SHLIBDEPS OFF)

install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/SECURITY.md"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/cairn" COMPONENT doc)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/cairn"
        COMPONENT doc FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN site EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/build/site/" OPTIONAL COMPONENT doc
        DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/cairn/html")  # by tools/site

# What a package holds: the preset `package` builds no more.
add_custom_target(packaged)
foreach(target cairn cairn-run cairn_manual cairn_shared cairn_c)
  if(TARGET ${target})
    add_dependencies(packaged ${target})
  endif()
endforeach()

include(CPack)
