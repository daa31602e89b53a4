# The C library of the launcher: PSB_LAUNCHER_COMPILE and PSB_LAUNCHER_LINK.
#
# A static one, where there is one: the dynamic linker would take a good part of a start. And musl, where it is installed
# (Debian: musl-tools): glibc asks the processor some ninety times what it can do before it calls main, and each of these
# questions leaves a virtual machine (docs/adr/0017-a-launcher-that-needs-no-python.md). musl has headers of its own and
# none of the kernel's, which are found after its own.
include(CheckCSourceCompiles)
set(PSB_LAUNCHER_COMPILE)
set(PSB_LAUNCHER_LINK)

if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  string(REPLACE "-gnu" "-musl" MUSL_ARCHITECTURE "${CMAKE_LIBRARY_ARCHITECTURE}")
  find_file(PSB_MUSL_SPECS musl-gcc.specs PATHS /usr/lib/${MUSL_ARCHITECTURE} /usr/local/musl/lib NO_DEFAULT_PATH)
endif()
if(PSB_MUSL_SPECS)
  set(KERNEL_HEADERS ${CMAKE_CURRENT_BINARY_DIR}/kernel_headers)
  file(MAKE_DIRECTORY ${KERNEL_HEADERS})
  foreach(name linux asm asm-generic)
    find_path(PSB_HAS_${name} ${name}/types.h PATHS /usr/include /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
    if(PSB_HAS_${name})
      file(CREATE_LINK ${PSB_HAS_${name}}/${name} ${KERNEL_HEADERS}/${name} SYMBOLIC)
    endif()
  endforeach()
  set(CMAKE_REQUIRED_FLAGS "-specs=${PSB_MUSL_SPECS} -idirafter ${KERNEL_HEADERS}")
  set(CMAKE_REQUIRED_LINK_OPTIONS -static -pthread)
  check_c_source_compiles("#include <linux/openat2.h>\n#include <pthread.h>\nint main(void) { return (int)RESOLVE_NO_XDEV; }"
    PSB_CAN_LINK_MUSL)
  unset(CMAKE_REQUIRED_FLAGS)
endif()

if(PSB_CAN_LINK_MUSL AND EXISTS ${PSB_MUSL_SPECS}) # both are kept from one build to the next
  set(PSB_LAUNCHER_COMPILE -specs=${PSB_MUSL_SPECS} "SHELL:-idirafter ${KERNEL_HEADERS}")
  set(PSB_LAUNCHER_LINK -specs=${PSB_MUSL_SPECS} -static -s)
else()
  set(CMAKE_REQUIRED_LINK_OPTIONS -static -pthread)
  check_c_source_compiles("#include <pthread.h>\nint main(void) { return (int)pthread_self() == 0; }" PSB_CAN_LINK_STATIC)
  if(PSB_CAN_LINK_STATIC)
    set(PSB_LAUNCHER_LINK -static -s)
  endif()
endif()
