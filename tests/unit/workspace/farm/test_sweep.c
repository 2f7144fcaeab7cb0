#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "workspace/farm/sweep.h"

static void a_whole_file_is_read(void **state)
{
    (void)state;
    fy_sweep s;
    fy_err e = {0};
    assert_int_equal(
        fy_sweep_parse(FY_SPAN("{\"models\": [\"a\", \"b.gguf\"], \"types\": [\"q4_0\"], \"out\": "
                               "\"o\", \"text\": \"t\", \"chips\": [\"SM8650\"], \"sdk\": "
                               "\"reference\", \"workspaces\": false, \"options\": {\"eval\": "
                               "[\"-c\", \"128\"], \"create\": [\"--copy\"]}}"),
                       &s, &e),
        0);
    assert_int_equal(s.models.n, 2);
    assert_string_equal(s.models.items[1], "b.gguf");
    assert_string_equal(s.types.items[0], "q4_0");
    assert_string_equal(s.out, "o");
    assert_string_equal(s.text, "t");
    assert_string_equal(s.sdk, "reference");
    assert_true(s.no_workspaces);
    assert_int_equal(s.recipes.n, 0);
    assert_int_equal(s.options[FY_SWEEP_EVAL].n, 2);
    assert_string_equal(s.options[FY_SWEEP_EVAL].items[1], "128");
    assert_string_equal(s.options[FY_SWEEP_CREATE].items[0], "--copy");
    fy_sweep_release(&s);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "column 1"},
        {"[]", "expected"},
        {"{\"types\": [\"q4_0\"], \"out\": \"o\"}", "lacks 'models'"},
        {"{\"models\": [\"a\"], \"out\": \"o\"}", "lacks 'types'"},
        {"{\"models\": [\"a\"], \"types\": [\"q4_0\"]}", "lacks 'out'"},
        {"{\"models\": [], \"types\": [\"q4_0\"], \"out\": \"o\"}",
         "models: expected at least one"},
        {"{\"models\": \"a\", \"types\": [\"q4_0\"], \"out\": \"o\"}", "models: "},
        {"{\"models\": [\"a\"], \"types\": [4], \"out\": \"o\"}", "types: "},
        {"{\"models\": [\"\"], \"types\": [\"q4_0\"], \"out\": \"o\"}", "not empty"},
        {"{\"models\": [\"a\"], \"types\": [\"q4_0\"], \"out\": 1}", "out: "},
        {"{\"models\": [\"a\"], \"types\": [\"q4_0\"], \"out\": \"o\", \"chip\": []}",
         "unknown key 'chip'; did you mean 'chips'?"},
        {"{\"models\": [\"a\"], \"types\": [\"q4_0\"], \"out\": \"o\", \"options\": {\"evl\": []}}",
         "options: unknown key 'evl'; did you mean 'eval'?"},
        {"{\"models\": [\"a\"], \"types\": [\"q4_0\"], \"out\": \"o\", \"recipes\": [\"16a4w\"]}",
         "recipes: is for chips"},
        {"{\"models\": [\"a\"], \"types\": [\"q4_0\"], \"out\": \"o\", \"sdk\": \"reference\"}",
         "sdk: is for chips"},
        {"{\"models\": [\"a\"], \"types\": [\"q4_0\"], \"out\": \"o\"} x", "column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fy_sweep s;
        fy_err e = {0};
        assert_int_equal(fy_sweep_parse(fy_span_of(cases[i].text), &s, &e), -1);
        if (strstr(e.msg, cases[i].message) == NULL)
            fail_msg("'%s', expected '%s'", e.msg, cases[i].message);
        fy_sweep_release(&s);
    }
}

/* Two rows; the second has names that a page or a table must not obey, and nothing measured. */
static void fill(fy_sweep_row rows[2])
{
    static char error[] = "</td><script>alert(1)</script>\n\033[31m";
    rows[0] = (fy_sweep_row){.model = "tales",
                             .type = "q8_0",
                             .bytes = 1500000,
                             .perplexity = 1.25,
                             .perplexity_error = 0.5,
                             .base_perplexity = 1.0 / 3,
                             .kl = 1e-4,
                             .kl_error = 1e-5,
                             .same_top = 0.995,
                             .fits = -1};
    rows[1] = (fy_sweep_row){.model = "a,\"b\"<i>&",
                             .type = "q4_0",
                             .perplexity = NAN,
                             .perplexity_error = NAN,
                             .base_perplexity = NAN,
                             .kl = NAN,
                             .kl_error = NAN,
                             .same_top = NAN,
                             .fits = -1,
                             .error = error};
}

static void put(fy_sweep_format format, fy_str *out)
{
    fy_err e = {0};
    fy_sweep_row rows[2];
    fill(rows);
    const fy_sweep_result r = {.rows = rows, .n = 2};
    assert_int_equal(fy_sweep_put(&r, format, out, &e), 0);
}

static void a_table_for_people_shows_what_there_is(void **state)
{
    (void)state;
    fy_str out = {0};
    put(FY_TABLE_TEXT, &out);
    assert_string_equal(fy_str_z(&out),
                        "model      type    MB  perplexity      KL  same top %  workspace\n"
                        "tales      q8_0  1.50      1.2500  0.0001       99.50\n"
                        "a,\"b\"<i>&  q4_0                                        failed: "
                        "</td><script>alert(1)</script>\\n\\x1b[31m\n");
    fy_str_release(&out);
}

static void tables_for_programs_have_all_columns(void **state)
{
    (void)state;
    fy_str out = {0};
    put(FY_TABLE_CSV, &out);
    assert_string_equal(
        fy_str_z(&out),
        "model,type,chip,recipe,bytes,perplexity,perplexity_error,base_perplexity,kl,kl_error,"
        "same_top,fits,chunks,sessions,why,workspace,error\n"
        "tales,q8_0,,,1500000,1.25,0.5,0.3333333333,0.0001,1e-05,0.995,,,,,,\n"
        "\"a,\"\"b\"\"<i>&\",q4_0,,,,,,,,,,,,,,,\"</td><script>alert(1)</script>\n\033[31m\"\n");
    fy_str_clear(&out);
    put(FY_TABLE_JSON, &out);
    assert_non_null(strstr(out.ptr, "{\"model\": \"tales\", \"type\": \"q8_0\", \"chip\": null"));
    assert_non_null(strstr(out.ptr, "\"kl\": 0.0001, \"kl_error\": 1e-05"));
    assert_non_null(strstr(out.ptr, "{\"model\": \"a,\\\"b\\\"<i>&\""));
    fy_str_release(&out);
}

static void a_page_obeys_no_name(void **state)
{
    (void)state;
    fy_str out = {0};
    put(FY_TABLE_HTML, &out);
    assert_null(strstr(out.ptr, "<script"));
    assert_null(strstr(out.ptr, "<i>"));
    assert_null(strchr(out.ptr, '\033'));
    assert_non_null(strstr(out.ptr, "a,&quot;b&quot;&lt;i&gt;&amp;"));
    assert_non_null(strstr(out.ptr, "default-src 'none'"));
    assert_non_null(strstr(out.ptr, "<circle"));
    assert_non_null(strstr(out.ptr, "<rect"));
    assert_null(strstr(out.ptr, "src="));
    assert_null(strstr(out.ptr, "://"));
    fy_str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file_is_read),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_table_for_people_shows_what_there_is),
        cmocka_unit_test(tables_for_programs_have_all_columns),
        cmocka_unit_test(a_page_obeys_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
