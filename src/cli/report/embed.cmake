# Writes a .cpp with the functions of page_files.h, each of which gives the bytes of some files.
#   cmake -DOUT=<file> "-Dpage_style=<file>;<file>" ... -P embed.cmake
set(text "#include \"cli/report/page_files.h\"\n\nnamespace cairn::cli {\n")
foreach(function page_html page_style page_script report_script live_script charts_licence)
  set(bytes)
  foreach(path IN LISTS ${function})
    file(READ "${path}" hex HEX)
    string(APPEND bytes "${hex}")
  endforeach()
  # An array: compilers need not take a literal of this length.
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND text "std::string_view ${function}() {\n"
                     "  static constexpr char kBytes[] = {${bytes}};\n"
                     "  return {kBytes, sizeof(kBytes)};\n}\n")
endforeach()
file(WRITE "${OUT}" "${text}}  // namespace cairn::cli\n")
