# Tests of the job file: included by tests/jobs/CMakeLists.txt.
foreach(subject spec yaml_tree)
  eo_test(NAME jobs_${subject} SOURCES test_${subject}.c LIBS eo_spec LABELS unit)
endforeach()
eo_test(NAME jobs_spec_faults SOURCES test_spec_faults.c LIBS eo_spec LABELS unit)
eo_test_failing_alloc(jobs_spec_faults)
