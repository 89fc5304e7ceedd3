# find_package(blkkin CONFIG) defines
#
#     blkkin::blkkin          the shared library
#     blkkin::blkkin_static   the static library
#
# for <blkkin.h>, <blkkin.hpp> and the headers of blkin, as <blkin/zipkin_c.h> and as <zipkin_c.h>.

get_filename_component(_blkkin_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(NOT TARGET blkkin::blkkin)
  add_library(blkkin::blkkin SHARED IMPORTED)
  set_target_properties(blkkin::blkkin PROPERTIES
    IMPORTED_LOCATION "${_blkkin_prefix}/lib/@FILE@"
    IMPORTED_SONAME "@LOADED@"
    INTERFACE_INCLUDE_DIRECTORIES "${_blkkin_prefix}/include;${_blkkin_prefix}/include/blkin")
endif()

if(NOT TARGET blkkin::blkkin_static)
  add_library(blkkin::blkkin_static STATIC IMPORTED)
  set_target_properties(blkkin::blkkin_static PROPERTIES
    IMPORTED_LOCATION "${_blkkin_prefix}/lib/libblkkin.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m"
    INTERFACE_INCLUDE_DIRECTORIES "${_blkkin_prefix}/include;${_blkkin_prefix}/include/blkin")
endif()

unset(_blkkin_prefix)
