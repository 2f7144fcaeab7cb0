#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "workspace/farm/farm.h"
#include "workspace/farm/slurm_state.h"
#include "workspace/farm/slurm_text.h"

static void sbatch_prints_a_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t job; /* 0: refused */
    } cases[] = {
        {"12\n", 12},
        {"12", 12},
        {"12;cluster\n", 12},
        {"4294967295\n", 4294967295u},
        {"", 0},
        {"\n", 0},
        {"0\n", 0},
        {"4294967296\n", 0},
        {"-1\n", 0},
        {"12 13", 0},
        {"Submitted batch job 12\n", 0},
        {"\033[2J", 0},
        {";12\n", 0},
        {"99999999999999999999999999\n", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t job;
        fy_err e = {0};
        assert_int_equal(fy_slurm_job_number(fy_span_of(cases[i].text), &job, &e),
                         cases[i].job > 0 ? 0 : -1);
        if (cases[i].job > 0)
            assert_int_equal(job, cases[i].job);
        else
            assert_null(strchr(e.msg, '\033'));
    }
}

static void squeue_prints_rows(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        uint32_t job, task;
        fy_part_state state;
        const char *node, *why;
    } cases[] = {
        {"7|1|PENDING||Resources", 7, 1, FY_PART_WAITING, "", "Resources"},
        {"7|64|RUNNING|n2|None", 7, 64, FY_PART_RUNNING, "n2", "None"},
        {"7|2|COMPLETED|n1|None", 7, 2, FY_PART_DONE, "n1", "None"},
        {"7|2|COMPLETING|n1|None", 7, 2, FY_PART_RUNNING, "n1", "None"},
        {"7|2|A_STATE_OF_TOMORROW|n1|", 7, 2, FY_PART_RUNNING, "n1", ""},
        {"7|3|FAILED|n1|NonZeroExitCode", 7, 3, FY_PART_FAILED, "n1", "NonZeroExitCode"},
        {"7|3|NODE_FAIL|n1|a|b", 7, 3, FY_PART_FAILED, "n1", "a|b"},
        {"7|3|OUT_OF_MEMORY|n1|", 7, 3, FY_PART_FAILED, "n1", ""},
        {"7|3|CANCELLED||None", 7, 3, FY_PART_CANCELLED, "", "None"},
        {"8|N/A|PENDING||Dependency", 8, 0, FY_PART_WAITING, "", "Dependency"},
    };
    fy_str all = {0};
    fy_slurm_row row;
    fy_err e = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fy_str_printf(&all, "%s\n", cases[i].line);
    fy_span rest = {fy_str_z(&all), all.len};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(fy_slurm_next_row(&rest, &row, &e), 1);
        assert_int_equal(row.job, cases[i].job);
        assert_int_equal(row.task, cases[i].task);
        assert_int_equal(row.state, cases[i].state);
        assert_true(fy_span_is(row.node, cases[i].node));
        assert_true(fy_span_is(row.why, cases[i].why));
    }
    assert_int_equal(fy_slurm_next_row(&rest, &row, &e), 0);
    fy_str_release(&all);
}

static void other_lines_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\n",
        "7",
        "7|1",
        "7|1|",
        "7|1||n1|None",
        "0|1|RUNNING|",
        "7|0|RUNNING|",
        "7|-|RUNNING|",
        "7|n/a|RUNNING|",
        "x|1|RUNNING|n|r",
        "7|[1-9]|PENDING||",
        "99999999999|1|RUNNING||",
        "squeue: error: \033]0;x\007",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fy_span rest = fy_span_of(bad[i]);
        fy_slurm_row row;
        fy_err e = {0};
        assert_int_equal(fy_slurm_next_row(&rest, &row, &e), -1);
        assert_int_equal(e.code, FY_EFORMAT);
        assert_null(strchr(e.msg, '\033'));
    }
}

static void tasks_are_written_as_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *set, *text; /* of the parts 1, 2, ... */
    } cases[] = {{"1", "1"},
                 {"0", ""},
                 {"111", "1-3"},
                 {"101", "1,3"},
                 {"0110111", "2-3,5-7"},
                 {"11", "1-2"},
                 {"0000000001", "10"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool set[16] = {true}; /* 0 is not a task */
        fy_str out = {0};
        const uint32_t n = (uint32_t)strlen(cases[i].set);
        for (uint32_t k = 0; k < n; k++)
            set[k + 1] = cases[i].set[k] == '1';
        fy_slurm_put_tasks(set, n, &out);
        assert_string_equal(fy_str_z(&out), cases[i].text);
        fy_str_release(&out);
    }
}

static void a_state_file_is_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{\"parts\": 3, \"retries\": 2, \"round\": 0, \"array\": 7, \"end\": 8}",
        "{\"parts\": 0, \"retries\": 2, \"round\": 0, \"array\": 7, \"end\": 8, \"of_round\": []}",
        "{\"parts\": 65536, \"retries\": 2, \"round\": 0, \"array\": 7, \"end\": 8, \"of_round\": "
        "[]}",
        "{\"parts\": 3, \"retries\": -2, \"round\": 0, \"array\": 7, \"end\": 8, \"of_round\": []}",
        "{\"parts\": 3, \"retries\": 2, \"round\": 0, \"array\": \"7\", \"end\": 8, \"of_round\": "
        "[]}",
        "{\"parts\": 3, \"retries\": 2, \"round\": 0, \"array\": 7, \"end\": 0, \"of_round\": []}",
        "{\"parts\": 3, \"retries\": 2, \"round\": 0, \"array\": 7, \"end\": 8, \"of_round\": [4]}",
        "{\"parts\": 3, \"retries\": 2, \"round\": 0, \"array\": 7, \"end\": 8, \"of_round\": [0]}",
        "{\"parts\": 3, \"retries\": 2, \"round\": 0, \"array\": 7, \"end\": 8, \"of_round\": 1}",
    };
    fy_slurm_state s;
    fy_err e = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (fy_err){0};
        assert_int_equal(fy_slurm_state_parse(&s, fy_span_of(bad[i]), &e), -1);
        assert_true(e.code != FY_OK && e.msg[0] != '\0');
        assert_null(s.set);
    }
    e = (fy_err){0};
    assert_int_equal(
        fy_slurm_state_parse(&s,
                             fy_span_of("{\"parts\": 3, \"retries\": 2, \"round\": 1, "
                                        "\"array\": 7, \"end\": 8, \"of_round\": [1, 3]}"),
                             &e),
        0);
    assert_true(s.n == 3 && s.retries == 2 && s.round == 1 && s.array == 7 && s.end == 8);
    assert_true(s.set[1] && !s.set[2] && s.set[3]);
    fy_slurm_state_release(&s);
}

static void the_last_line_is_the_one_with_words(void **state)
{
    (void)state;
    static const struct {
        const char *text, *last;
    } cases[] = {{"", ""},
                 {"\n\n", ""},
                 {"a", "a"},
                 {"a\n", "a"},
                 {"a\nb\n", "b"},
                 {"a\nb \r\n \n", "b"},
                 {"10 %\r20 %\r\n", "20 %"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(fy_span_is(fy_farm_last_line(fy_span_of(cases[i].text)), cases[i].last));
}

static void what_fails_again_is_not_sent_again(void **state)
{
    (void)state;
    for (int status = -1; status < 256; status++) {
        const bool final = status == 2 || status == 3 || status == 4 || status == 6;
        assert_int_equal(fy_farm_is_final(status), final);
        const bool ours = status >= 2 && status <= 6;
        assert_int_equal(fy_exit_status(fy_farm_code(status)), ours || status == 130 ? status : 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sbatch_prints_a_number),
        cmocka_unit_test(squeue_prints_rows),
        cmocka_unit_test(other_lines_are_refused),
        cmocka_unit_test(tasks_are_written_as_ranges),
        cmocka_unit_test(a_state_file_is_checked),
        cmocka_unit_test(the_last_line_is_the_one_with_words),
        cmocka_unit_test(what_fails_again_is_not_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
