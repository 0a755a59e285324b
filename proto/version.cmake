# What eo_build() says: the project's version and the commit of the checkout that was configured.
execute_process(COMMAND git -C "${CMAKE_SOURCE_DIR}" rev-parse --short HEAD
  OUTPUT_VARIABLE eo_commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT eo_commit)
  set(eo_commit unknown)
endif()
target_sources(eo_proto PRIVATE version.c message_schema.c)
set_source_files_properties(version.c PROPERTIES
  COMPILE_DEFINITIONS "EO_VERSION=\"${PROJECT_VERSION}\";EO_COMMIT=\"${eo_commit}\"")
