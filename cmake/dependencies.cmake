# Third-party libraries as imported targets. docs/dependencies.md says why each one is here.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv>=1.40)
pkg_search_module(MSGPACK REQUIRED IMPORTED_TARGET msgpack-c>=4 msgpack>=3.3)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto>=3.0)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3>=3.35)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1>=0.2.5)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.13)
if(EO_BUILD_TESTS)
  pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check>=0.15)
endif()

# eo_optional(DEP found): sets EO_HAVE_DEP by EO_WITH_DEP and what was found.
function(eo_optional dep found)
  if(EO_WITH_${dep} STREQUAL "OFF")
    set(have OFF)
  elseif(found)
    set(have ON)
  elseif(EO_WITH_${dep} STREQUAL "ON")
    message(FATAL_ERROR "EO_WITH_${dep}=ON, but ${dep} was not found")
  else()
    set(have OFF)
  endif()
  set(EO_HAVE_${dep} ${have} PARENT_SCOPE)
  message(STATUS "${dep}: ${have}")
endfunction()

pkg_check_modules(ZLIB QUIET IMPORTED_TARGET zlib)
eo_optional(ZLIB "${ZLIB_FOUND}")
pkg_check_modules(SLEEF QUIET IMPORTED_TARGET sleef)
eo_optional(SLEEF "${SLEEF_FOUND}")
# OpenMP: gcc's only, so that one libgomp serves OpenBLAS and us; other compilers run eo_parallel_for serially.
find_package(OpenMP QUIET COMPONENTS C)
if(OpenMP_C_FOUND AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT EO_SANITIZE MATCHES "thread")
  eo_optional(OPENMP TRUE)
else()
  eo_optional(OPENMP FALSE)
endif()
# OpenBLAS is opened at run time by absolute path (its OpenMP build by explicit choice); only the path is found here.
find_library(EO_OPENBLAS_LIBRARY NAMES libopenblas.so.0
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp /usr/lib/x86_64-linux-gnu/openblas-openmp
  NO_DEFAULT_PATH)
eo_optional(OPENBLAS "${EO_OPENBLAS_LIBRARY}")
# oneDNN likewise; its header is needed to build (libdnnl-dev), for structs that have no other description.
find_library(EO_ONEDNN_LIBRARY NAMES libdnnl.so.2
  PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib/x86_64-linux-gnu NO_DEFAULT_PATH)
find_path(EO_ONEDNN_INCLUDE NAMES dnnl.h)
if(EO_ONEDNN_LIBRARY AND EO_ONEDNN_INCLUDE AND EO_HAVE_OPENMP)
  eo_optional(ONEDNN TRUE)
else()
  eo_optional(ONEDNN FALSE)
endif()
