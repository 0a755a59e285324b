# The tables of proto/ interrogated.
eo_test(NAME tables_sanity SOURCES test_tables_sanity.c LIBS eo_proto LABELS tables)
