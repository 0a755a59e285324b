# eo_module(NAME name SOURCES ... DEPENDS ...): one static library eo_<name>; includes are written from the repository root.
function(eo_module)
  cmake_parse_arguments(M "" "NAME" "SOURCES;DEPENDS" ${ARGN})
  add_library(eo_${M_NAME} STATIC ${M_SOURCES})
  target_include_directories(eo_${M_NAME} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_link_libraries(eo_${M_NAME} PUBLIC ${M_DEPENDS})
endfunction()

# oneDNN's convolutions confuse LeakSanitizer's bookkeeping of thread-local storage, which then crashes at exit
# ("Tracer caught signal 11"); without that bookkeeping leaks are still found.
set(EO_TEST_ENVIRONMENT "EO_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
if(EO_SANITIZE MATCHES "address")
  list(APPEND EO_TEST_ENVIRONMENT "ASAN_OPTIONS=intercept_tls_get_addr=0")
endif()

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
    ENVIRONMENT "CK_FORK=no;${EO_TEST_ENVIRONMENT};EO_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()

# eo_script_test(NAME name COMMAND ... LABELS ... [TIMEOUT s]): a script as a ctest entry, same conventions.
function(eo_script_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "${EO_TEST_ENVIRONMENT};EO_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};EO_BUILD_DIR=${CMAKE_BINARY_DIR}")
endfunction()

# eo_fuzz(NAME name SOURCES ... LIBS ... [TIMEOUT s]): one fuzz target. SOURCES define LLVMFuzzerTestOneInput; the corpus is
# the folder corpus/<name> beside them. Always: test_fuzz_<name> replays the corpus and its neighbours (label fuzz-replay).
# With EO_BUILD_FUZZ: fuzz_<name> is the libFuzzer program.
function(eo_fuzz)
  cmake_parse_arguments(F "" "NAME;TIMEOUT" "SOURCES;LIBS" ${ARGN})
  eo_test(NAME fuzz_${F_NAME} LABELS fuzz-replay TIMEOUT ${F_TIMEOUT} LIBS ${F_LIBS}
    SOURCES ${F_SOURCES} "${CMAKE_SOURCE_DIR}/tests/support/fuzz_replay.c"
    ARGS "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${F_NAME}")
  # The entry point's declaration is libFuzzer's, not ours.
  set_source_files_properties(${F_SOURCES} PROPERTIES COMPILE_OPTIONS "-Wno-missing-prototypes")
  if(EO_BUILD_FUZZ)
    add_executable(fuzz_${F_NAME} ${F_SOURCES})
    target_link_libraries(fuzz_${F_NAME} PRIVATE ${F_LIBS})
    target_include_directories(fuzz_${F_NAME} PRIVATE "${CMAKE_SOURCE_DIR}")
    target_link_options(fuzz_${F_NAME} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
