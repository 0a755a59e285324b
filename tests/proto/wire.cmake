# The wire layer: frames, codec, errors as data, endpoints, channels.
foreach(subject frame codec error_codec endpoint channel listen)
  eo_test(NAME proto_${subject} SOURCES test_${subject}.c LIBS eo_proto LABELS unit)
endforeach()
eo_test(NAME proto_msgpack_vectors SOURCES test_msgpack_vectors.c LIBS eo_proto PkgConfig::JANSSON LABELS unit)

# Every allocation of base and codec fails once. A sanitizer owns malloc, so there only the calls of our own objects are
# redirected; elsewhere malloc itself is replaced, which reaches those of the MessagePack library too.
eo_test(NAME proto_alloc_faults SOURCES test_alloc_faults.c LIBS eo_proto LABELS unit)
if(EO_SANITIZE)
  target_link_options(test_proto_alloc_faults PRIVATE LINKER:--wrap=malloc,--wrap=calloc,--wrap=realloc)
  target_compile_definitions(test_proto_alloc_faults PRIVATE EO_WRAPPED_MALLOC=1)
else()
  target_compile_definitions(test_proto_alloc_faults PRIVATE EO_WRAPPED_MALLOC=0)
endif()

# The bytes of protocol version 1, kept for ever.
eo_test(NAME proto_transcripts SOURCES test_transcripts.c transcript.c transcripts.c LIBS eo_proto LABELS unit)
