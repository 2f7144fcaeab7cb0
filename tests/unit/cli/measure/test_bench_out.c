#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/json_tree.h"
#include "cli/measure/bench.h"

static const uint64_t ns[] = {1000000, 2000000};
static const double ts[] = {8000, 4000};

static fy_bench_about about(uint64_t n_prompt, uint64_t n_gen, uint64_t n_depth)
{
    return (fy_bench_about){.build_commit = "0.1.0",
                            .cpu_info = "A \"fast\" CPU",
                            .gpu_info = "",
                            .backends = "CPU",
                            .model_filename = "dir/m\xc3\xa4.gguf",
                            .model_type = "llama 1.2B Q8_0",
                            .model_size = 1313251456,
                            .model_n_params = 1235814432,
                            .n_batch = 512,
                            .n_ubatch = 512,
                            .n_threads = 2,
                            .type_k = "f16",
                            .type_v = "f32",
                            .use_mmap = true,
                            .n_prompt = n_prompt,
                            .n_gen = n_gen,
                            .n_depth = n_depth,
                            .test_time = "2026-11-21T18:46:59Z"};
}

static const fy_bench_result prompt_result = {.avg_ns = 1500000,
                                              .stddev_ns = 707107,
                                              .avg_ts = 6000,
                                              .stddev_ts = 2828.427125,
                                              .bandwidth_share = NAN,
                                              .draft_step_ns = NAN,
                                              .draft_bound_ts = NAN,
                                              .samples_ns = ns,
                                              .samples_ts = ts,
                                              .n_samples = 2};
static fy_bench_result decode_result(void)
{
    fy_bench_result r = prompt_result;
    r.bytes_per_token = 1319000000;
    r.bandwidth_share = 0.875;
    return r;
}

/* One prompt test, one of decoding. */
static void put_two(fy_bench_out o, fy_str *s)
{
    const fy_bench_about pp = about(8, 0, 0), tg = about(0, 8, 64);
    const fy_bench_result r = decode_result();
    fy_bench_out_begin(&o, s);
    fy_bench_out_test(&o, &pp, &prompt_result, s);
    fy_bench_out_test(&o, &tg, &r, s);
    fy_bench_out_end(&o, s);
    assert_false(s->oom);
}

static void expect(fy_str *s, const char *want)
{
    assert_string_equal(fy_str_z(s), want);
    fy_str_release(s);
}

#define CSV_NAMES                                                                                \
    "build_commit,build_number,cpu_info,gpu_info,backends,model_filename,model_type,model_size," \
    "model_n_params,n_batch,n_ubatch,n_threads,type_k,type_v,use_mmap,n_prompt,n_gen,n_depth,"   \
    "n_draft,draft_accept,"                                                                    \
    "test_time,"
#define CSV_ABOUT                                                                              \
    "\"0.1.0\",\"0\",\"A \"\"fast\"\" CPU\",\"\",\"CPU\",\"dir/m\xc3\xa4.gguf\",\"llama 1.2B " \
    "Q8_0\",\"1313251456\",\"1235814432\",\"512\",\"512\",\"2\",\"f16\",\"f32\",\"1\","

static void markdown_is_llama_benchs_table(void **state)
{
    (void)state;
    fy_str s = {0};
    put_two((fy_bench_out){.format = FY_BENCH_MD}, &s);
    expect(
        &s,
        "| model                          |       size |     params | backend    | threads |      "
        "      test |                  t/s |\n"
        "| ------------------------------ | ---------: | ---------: | ---------- | ------: | "
        "--------------: | -------------------: |\n"
        "| llama 1.2B Q8_0                |   1.22 GiB |     1.24 B | CPU        |       2 |      "
        "       pp8 |    6000.00 \u00b1 2828.43 |\n"
        "| llama 1.2B Q8_0                |   1.22 GiB |     1.24 B | CPU        |       2 |      "
        " tg8 @ d64 |    6000.00 \u00b1 2828.43 |\n");
}

static void markdown_has_columns_for_what_was_chosen(void **state)
{
    (void)state;
    fy_str s = {0};
    put_two((fy_bench_out){.format = FY_BENCH_MD,
                           .show_batch = true,
                           .show_type_k = true,
                           .show_type_v = true,
                           .show_bytes = true},
            &s);
    expect(
        &s,
        "| model                          |       size |     params | backend    | threads | "
        "n_batch | type_k | type_v |            test |                  t/s | bytes/token | "
        "bandwidth |\n"
        "| ------------------------------ | ---------: | ---------: | ---------- | ------: | "
        "------: | -----: | -----: | --------------: | -------------------: | ----------: | "
        "--------: |\n"
        "| llama 1.2B Q8_0                |   1.22 GiB |     1.24 B | CPU        |       2 |     "
        "512 |    f16 |    f32 |             pp8 |    6000.00 \u00b1 2828.43 |           - |       "
        "  "
        "- |\n"
        "| llama 1.2B Q8_0                |   1.22 GiB |     1.24 B | CPU        |       2 |     "
        "512 |    f16 |    f32 |       tg8 @ d64 |    6000.00 \u00b1 2828.43 |    1.23 GiB |    "
        "87.5 "
        "% |\n");
}

static void csv_quotes_every_value(void **state)
{
    (void)state;
    fy_str s = {0};
    put_two((fy_bench_out){.format = FY_BENCH_CSV}, &s);
    expect(&s, CSV_NAMES
           "avg_ns,stddev_ns,avg_ts,stddev_ts,bytes_per_token,bandwidth_share,draft_step_ns,draft_bound_ts\n" CSV_ABOUT
           "\"8\",\"0\",\"0\",\"0\",\"0\",\"2026-11-21T18:46:59Z\",\"1500000\",\"707107\",\"6000.000000\","
           "\"2828.427125\",\"\",\"\",\"\",\"\"\n" CSV_ABOUT
           "\"0\",\"8\",\"64\",\"0\",\"0\",\"2026-11-21T18:46:59Z\",\"1500000\",\"707107\",\"6000.000000\","
           "\"2828.427125\",\"1319000000\",\"0.875000\",\"\",\"\"\n");
}

#define JSONL_ABOUT                                                                             \
    "{\"build_commit\": \"0.1.0\", \"build_number\": 0, \"cpu_info\": \"A \\\"fast\\\" CPU\", " \
    "\"gpu_info\": \"\", \"backends\": \"CPU\", \"model_filename\": \"dir/m\xc3\xa4.gguf\", "   \
    "\"model_type\": \"llama 1.2B Q8_0\", \"model_size\": 1313251456, \"model_n_params\": "     \
    "1235814432, \"n_batch\": 512, \"n_ubatch\": 512, \"n_threads\": 2, \"type_k\": \"f16\", "  \
    "\"type_v\": \"f32\", \"use_mmap\": true, "

static void jsonl_is_an_object_a_line(void **state)
{
    (void)state;
    fy_str s = {0};
    put_two((fy_bench_out){.format = FY_BENCH_JSONL}, &s);
    expect(&s, JSONL_ABOUT
           "\"n_prompt\": 8, \"n_gen\": 0, \"n_depth\": 0, \"n_draft\": 0, \"draft_accept\": 0, \"test_time\": "
           "\"2026-11-21T18:46:59Z\", \"avg_ns\": 1500000, \"stddev_ns\": 707107, \"avg_ts\": "
           "6000.000000, \"stddev_ts\": 2828.427125, \"bytes_per_token\": null, "
           "\"bandwidth_share\": null, \"draft_step_ns\": null, \"draft_bound_ts\": null, \"samples_ns\": [ 1000000, 2000000 ], \"samples_ts\": [ "
           "8000.000000, 4000.000000 ]}\n" JSONL_ABOUT
           "\"n_prompt\": 0, \"n_gen\": 8, \"n_depth\": 64, \"n_draft\": 0, \"draft_accept\": 0, \"test_time\": "
           "\"2026-11-21T18:46:59Z\", \"avg_ns\": 1500000, \"stddev_ns\": 707107, \"avg_ts\": "
           "6000.000000, \"stddev_ts\": 2828.427125, \"bytes_per_token\": 1319000000, "
           "\"bandwidth_share\": 0.875000, \"draft_step_ns\": null, \"draft_bound_ts\": null, \"samples_ns\": [ 1000000, 2000000 ], \"samples_ts\": [ "
           "8000.000000, 4000.000000 ]}\n");
}

static json_t *parsed(fy_str *s)
{
    fy_err e = {0};
    json_t *root = fy_json_data((fy_span){s->ptr, s->len}, &e);
    if (root == NULL)
        fail_msg("%s", e.msg);
    fy_str_release(s);
    return root;
}

static void json_is_an_array_of_the_same_objects(void **state)
{
    (void)state;
    fy_str s = {0}, lines = {0};
    put_two((fy_bench_out){.format = FY_BENCH_JSON}, &s);
    static const char begin[] = "[\n  {\n    \"build_commit\": \"0.1.0\",\n";
    assert_int_equal(strncmp(fy_str_z(&s), begin, sizeof begin - 1), 0);
    json_t *array = parsed(&s);
    assert_int_equal(json_array_size(array), 2);
    put_two((fy_bench_out){.format = FY_BENCH_JSONL}, &lines);
    const char *line = fy_str_z(&lines);
    for (size_t i = 0; i < 2; i++) {
        size_t n = strcspn(line, "\n");
        json_t *object = fy_json_data((fy_span){line, n}, NULL);
        assert_true(json_equal(object, json_array_get(array, i)));
        json_decref(object);
        line += n + 1;
    }
    fy_str_release(&lines);
    json_decref(array);
}

static void json_without_rows_is_json(void **state)
{
    (void)state;
    fy_str s = {0};
    fy_bench_out o = {.format = FY_BENCH_JSON};
    fy_bench_out_begin(&o, &s);
    fy_bench_out_end(&o, &s);
    json_t *array = parsed(&s);
    assert_int_equal(json_array_size(array), 0);
    json_decref(array);
}

/* --- sustained --- */

static void put_sustained(fy_bench_format format, fy_str *s)
{
    const fy_bench_about a = about(0, 128, 0);
    const fy_bench_moment first = {.end_s = 30.01,
                                   .begin_s = 0,
                                   .n_tokens = 1500,
                                   .avg_ts = 50,
                                   .clock_mhz = 3302.4,
                                   .temperature_c = 61.5};
    const fy_bench_moment last = {.begin_s = 30.01,
                                  .end_s = 60,
                                  .n_tokens = 1200,
                                  .avg_ts = 40,
                                  .clock_mhz = NAN,
                                  .temperature_c = NAN};
    fy_bench_out o = {.format = format, .show_bytes = true};
    fy_bench_out_begin_sustained(&o, &a, s);
    fy_bench_out_moment(&o, &a, &first, s);
    fy_bench_out_moment(&o, &a, &last, s);
    fy_bench_out_end_sustained(&o, 50, 40, s);
    assert_false(s->oom);
}

static void a_sustained_run_ends_with_first_to_last(void **state)
{
    (void)state;
    fy_str s = {0};
    put_sustained(FY_BENCH_MD, &s);
    expect(&s,
           "| model                          | threads |            test |         seconds |    "
           "    t/s |    MHz |     \u00b0C |\n"
           "| ------------------------------ | ------: | --------------: | --------------: | "
           "---------: | -----: | -----: |\n"
           "| llama 1.2B Q8_0                |       2 |           tg128 |            0-30 |    "
           "  50.00 |   3302 |   61.5 |\n"
           "| llama 1.2B Q8_0                |       2 |           tg128 |           30-60 |    "
           "  40.00 |      - |      - |\n"
           "\nfirst interval : last interval = 50.00 : 40.00 = 1.250\n");
    put_sustained(FY_BENCH_CSV, &s);
    expect(&s, CSV_NAMES "begin_s,end_s,n_tokens,avg_ts,clock_mhz,temperature_c\n" CSV_ABOUT
                         "\"0\",\"128\",\"0\",\"0\",\"0\",\"2026-11-21T18:46:59Z\",\"0.000000\",\"30.010000\","
                         "\"1500\",\"50.000000\",\"3302.400000\",\"61.500000\"\n" CSV_ABOUT
                         "\"0\",\"128\",\"0\",\"0\",\"0\",\"2026-11-21T18:46:59Z\",\"30.010000\",\"60.000000\","
                         "\"1200\",\"40.000000\",\"\",\"\"\n");
}

static void a_sustained_run_is_one_object_or_three_lines(void **state)
{
    (void)state;
    fy_str s = {0};
    put_sustained(FY_BENCH_JSON, &s);
    json_t *root = parsed(&s), *list = json_object_get(root, "intervals");
    assert_int_equal(json_array_size(list), 2);
    assert_true(json_is_null(json_object_get(json_array_get(list, 1), "clock_mhz")));
    assert_true(json_real_value(json_object_get(root, "first_to_last")) == 1.25);
    assert_string_equal(json_string_value(json_object_get(root, "model_type")), "llama 1.2B Q8_0");
    json_decref(root);
    put_sustained(FY_BENCH_JSONL, &s);
    const char *last = strrchr(fy_str_z(&s), '{');
    assert_string_equal(last, "{\"first_ts\": 50.000000, \"last_ts\": 40.000000, "
                              "\"first_to_last\": 1.2500}\n");
    fy_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown_is_llama_benchs_table),
        cmocka_unit_test(markdown_has_columns_for_what_was_chosen),
        cmocka_unit_test(csv_quotes_every_value),
        cmocka_unit_test(jsonl_is_an_object_a_line),
        cmocka_unit_test(json_is_an_array_of_the_same_objects),
        cmocka_unit_test(json_without_rows_is_json),
        cmocka_unit_test(a_sustained_run_ends_with_first_to_last),
        cmocka_unit_test(a_sustained_run_is_one_object_or_three_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
