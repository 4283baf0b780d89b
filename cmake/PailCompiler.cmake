# What every target of the project is compiled with: link to `pail_compiler`.
# Never -march=native: a release binary has to run on any machine of its architecture.
add_library(pail_compiler INTERFACE)
target_compile_options(pail_compiler INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual -Wnull-dereference -Wimplicit-fallthrough -Werror
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees null dereferences, overlong and overlapping copies inside inlined library code that are not there.
  target_compile_options(pail_compiler INTERFACE
    -Wno-null-dereference -Wno-stringop-overflow -Wno-array-bounds -Wno-restrict)
endif()
target_include_directories(pail_compiler INTERFACE ${CMAKE_SOURCE_DIR})

if(PAIL_SANITIZE)
  target_compile_options(pail_compiler INTERFACE -fsanitize=${PAIL_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(pail_compiler INTERFACE -fsanitize=${PAIL_SANITIZE})
endif()

# pail_command_line(TARGET): the flags' library makes the longest compilations there are, for code that
# runs once. Such a target is compiled in few units, and not optimized beyond what is cheap.
function(pail_command_line target)
  if(PAIL_SANITIZE)
    set(effort -O0)
  else()
    set(effort $<$<CONFIG:Release>:-O1>)
  endif()
  target_compile_options(${target} PRIVATE ${effort})
  target_link_libraries(${target} PRIVATE CLI11::CLI11)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
endfunction()

# Faster builds where the tools are there; nothing depends on them.
find_program(PAIL_CCACHE ccache)
if(PAIL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PAIL_CCACHE})
endif()
