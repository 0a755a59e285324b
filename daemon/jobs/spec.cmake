# The job file: included by daemon/jobs/CMakeLists.txt. Needs no engine, so that the control plane can check jobs.
eo_module(NAME spec
  SOURCES spec.c spec_data.c spec_model.c spec_schedule.c spec_values.c spec_write.c yaml_tree.c
  DEPENDS eo_nn eo_train_tables)
target_link_libraries(eo_spec PRIVATE PkgConfig::YAML)
