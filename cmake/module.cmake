# eo_module(NAME name SOURCES ... DEPENDS ...): one static library eo_<name>; includes are written from the repository root.
function(eo_module)
  cmake_parse_arguments(M "" "NAME" "SOURCES;DEPENDS" ${ARGN})
  add_library(eo_${M_NAME} STATIC ${M_SOURCES})
  target_include_directories(eo_${M_NAME} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_link_libraries(eo_${M_NAME} PUBLIC ${M_DEPENDS})
endfunction()

# eo_test(NAME name SOURCES ... LIBS ... LABELS ... [TIMEOUT s] [ARGS ...]): one executable, one subject, one ctest entry.
# A test that cannot run here exits 77 and prints why on its last line; ctest shows it as skipped.
function(eo_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;ARGS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  add_executable(test_${T_NAME} ${T_SOURCES})
  target_link_libraries(test_${T_NAME} PRIVATE ${T_LIBS} PkgConfig::CHECK)
  target_include_directories(test_${T_NAME} PRIVATE "${CMAKE_SOURCE_DIR}")
  add_test(NAME ${T_NAME} COMMAND test_${T_NAME} ${T_ARGS})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "CK_FORK=no;EO_SOURCE_DIR=${CMAKE_SOURCE_DIR};EO_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()

# eo_script_test(NAME name COMMAND ... LABELS ... [TIMEOUT s]): a script as a ctest entry, same conventions.
function(eo_script_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "EO_SOURCE_DIR=${CMAKE_SOURCE_DIR};EO_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};EO_BUILD_DIR=${CMAKE_BINARY_DIR}")
endfunction()
