#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/verb.h"
#include "workspace/phone/explain.h"

static const fy_explain_row *row(size_t i)
{
    return &fy_explain_known()->row[i];
}

static void is_text(const char *name, const char *what, const char *text)
{
    if (text == NULL || *text == '\0' || isspace((unsigned char)*text) ||
        isspace((unsigned char)text[strlen(text) - 1]) || strstr(text, "  ") != NULL ||
        text[strlen(text) - 1] == '.')
        fail_msg("%s: its %s is '%s'", name, what, text != NULL ? text : "(none)");
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~')
            fail_msg("%s: its %s has a byte %02x", name, what, (unsigned char)*p);
    }
}

static void every_row_is_well_formed(void **state)
{
    (void)state;
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        const fy_explain_row *r = row(i);
        fy_explanation x = fy_explain_of(r);
        assert_non_null(r->name);
        assert_true((unsigned)r->family < FY_EXPLAIN_FAMILIES);
        if (strspn(r->name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
            strlen(r->name))
            fail_msg("'%s' is not one word", r->name);
        is_text(r->name, "meaning", x.meaning);
        is_text(r->name, "cause", x.cause);
        is_text(r->name, "remedy", x.remedy);
        if (r->code == FY_EXPLAIN_NO_CODE && r->text == NULL)
            fail_msg("%s has neither number nor text", r->name);
        if (r->text != NULL && (r->text[0] == '|' || r->text[strlen(r->text) - 1] == '|' ||
                                strstr(r->text, "||") != NULL))
            fail_msg("%s: an empty text in '%s'", r->name, r->text);
        if (r->family == FY_EXPLAIN_ADB && strlen(r->meaning) + strlen(r->remedy) > 350)
            fail_msg("%s is too long for a message", r->name);
        if (r->family == FY_EXPLAIN_QNN && r->code != FY_EXPLAIN_NO_CODE) {
            const fy_explain_group *g = NULL;
            for (size_t k = 0; k < fy_explain_known()->n_groups; k++) {
                const fy_explain_group *one = &fy_explain_known()->group[k];
                if (one->family == r->family && r->code >= one->first && r->code <= one->last)
                    g = one;
            }
            assert_non_null(g);
            /* QNN_CONTEXT_ERROR_X in QNN_CONTEXT_ERROR; the system's have a longer name. */
            assert_int_equal(strncmp(r->name, g->name, strcspn(g->name + 4, "_") + 4), 0);
        }
    }
}

static void no_fact_stands_twice(void **state)
{
    (void)state;
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcasecmp(row(i)->name, row(k)->name) == 0)
                fail_msg("%s stands twice", row(i)->name);
            if (row(i)->family == row(k)->family && row(i)->code == row(k)->code &&
                row(i)->code != FY_EXPLAIN_NO_CODE)
                fail_msg("%s and %s have one number", row(i)->name, row(k)->name);
        }
    }
    for (size_t i = 0; i < fy_explain_known()->n_groups; i++) {
        const fy_explain_group *g = &fy_explain_known()->group[i];
        assert_true(g->first <= g->last);
        is_text(g->name, "what", g->what);
        for (size_t k = 0; k < i; k++) {
            const fy_explain_group *h = &fy_explain_known()->group[k];
            assert_true(g->family != h->family || g->last < h->first || g->first > h->last);
        }
    }
}

static void every_exit_status_of_ferry_has_a_row(void **state)
{
    (void)state;
    for (const fy_exit_row *r = fy_exit_rows; r->text != NULL; r++) {
        fy_explanation x[8];
        char text[16];
        snprintf(text, sizeof text, "%d", r->status);
        size_t n = r->status > 0 ? fy_explain(text, x, 8, NULL) : 0;
        assert_true(r->status == 0 || (n > 0 && x[0].family == FY_EXPLAIN_FERRY));
        if (n > 0)
            assert_string_equal(x[0].meaning, r->text);
    }
}

static bool is_answer(const char *query, const fy_explain_row *r)
{
    fy_explanation x[8];
    size_t n = fy_explain(query, x, 8, NULL);
    for (size_t i = 0; i < n; i++) {
        if (x[i].name == r->name)
            return true;
    }
    return false;
}

static void every_row_is_found_by_all_it_has(void **state)
{
    (void)state;
    for (size_t i = 0; i < fy_explain_known()->n_rows; i++) {
        const fy_explain_row *r = row(i);
        char text[256], decimal[24], hex[24];
        fy_explanation x = fy_explain_of(r);
        fy_explain_code_text(&x, decimal, hex);
        if (!is_answer(r->name, r))
            fail_msg("%s is not found by its name", r->name);
        for (char *p = strcpy(text, r->name); *p != '\0'; p++)
            *p = (char)tolower((unsigned char)*p);
        if (!is_answer(text, r))
            fail_msg("%s is not found by %s", r->name, text);
        if (decimal[0] != '\0' && (!is_answer(decimal, r) || !is_answer(hex, r)))
            fail_msg("%s is not found by %s or %s", r->name, decimal, hex);
        snprintf(text, sizeof text, "it failed: err %s", decimal);
        if (decimal[0] != '\0' && !is_answer(text, r))
            fail_msg("%s is not found in '%s'", r->name, text);
        for (const char *p = r->text; p != NULL && *p != '\0';) {
            size_t n = strcspn(p, "|");
            snprintf(text, sizeof text, "adb: it says %.*s here", (int)n, p);
            if (!is_answer(text, r))
                fail_msg("%s is not found in '%s'", r->name, text);
            p += n + (p[n] == '|');
        }
    }
}

static void finds(const char *query, const char *name)
{
    fy_explanation x[8];
    size_t n = fy_explain(query, x, 8, NULL);
    if (n == 0 || strcmp(x[0].name, name) != 0)
        fail_msg("'%s' is %s, not %s", query, n > 0 ? x[0].name : "unknown", name);
}

static void numbers_come_in_many_forms(void **state)
{
    (void)state;
    static const char *const forms[][2] = {
        {"0x80000406", "AEE_EUNABLETOLOAD"},
        {"2147484678", "AEE_EUNABLETOLOAD"},
        {"-2147482618", "AEE_EUNABLETOLOAD"},
        {"0xffffffff80000406", "AEE_EUNABLETOLOAD"},
        {" 0X80000406\n", "AEE_EUNABLETOLOAD"},
        {"0x80000600", "AEE_ERPC"},
        {"0x8000040e", "AEE_EBADPARM"},
        {"-22", "EINVAL"},
        {"0xffffffea", "EINVAL"},
        {"0x7532", "QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED"},
        {"err 30002", "QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED"},
        {"0x12340000000003f1", "QNN_COMMON_ERROR_LOADING_BINARIES"}, /* a handle: the low 16 bits */
        {"5099", "QNN_CONTEXT_ERROR"},
        {"0x8000050f", "AEE_ESMD"},
        {"133", "SIGNAL"},
        {"137", "SIGKILL"},
        {"Device Creation failure, error = 14001", "QNN_DEVICE_ERROR_INVALID_CONFIG"},
        {"[5/7] graphFinalize -> 1002 (took 12.5 s)", "QNN_COMMON_ERROR_MEM_ALLOC"},
        {"fastrpc_apps_user.c:1830: Error 0x80000600: open failed", "AEE_ERPC"},
        {"QnnDsp <E> qnn_open failed: AEE_EUNABLETOLOAD", "AEE_EUNABLETOLOAD"},
        {"the command ended with exit status 132", "SIGILL"},
        {"rc=3", "FERRY_FIT"},
        {"CONTEXT_ERROR_BINARY_VERSION", "QNN_CONTEXT_ERROR_BINARY_VERSION"},
        {"adb: error: failed to get feature set: device offline", "adb-offline"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        finds(forms[i][0], forms[i][1]);
}

/* The numbers that QNN's headers and FastRPC define, the states and messages of adb, and the lines
 * that users of the NPU report. */
static void what_users_meet_is_known(void **state)
{
    (void)state;
    static const char *const listed[][2] = {
        {"1000", "QNN_COMMON_ERROR_NOT_SUPPORTED"},
        {"1002", "QNN_COMMON_ERROR_MEM_ALLOC"},
        {"1003", "QNN_COMMON_ERROR_SYSTEM"},
        {"1004", "QNN_COMMON_ERROR_INVALID_ARGUMENT"},
        {"1005", "QNN_COMMON_ERROR_OPERATION_NOT_PERMITTED"},
        {"1006", "QNN_COMMON_ERROR_PLATFORM_NOT_SUPPORTED"},
        {"1007", "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION"},
        {"1008", "QNN_COMMON_ERROR_INCOMPATIBLE_BINARIES"},
        {"1009", "QNN_COMMON_ERROR_LOADING_BINARIES"},
        {"1010", "QNN_COMMON_ERROR_RESOURCE_UNAVAILABLE"},
        {"1011", "QNN_COMMON_ERROR_SYSTEM_COMMUNICATION_FATAL"},
        {"1100", "QNN_COMMON_ERROR_GENERAL"},
        {"2000", "QNN_PROPERTY_ERROR"},
        {"3000", "QNN_OP_PACKAGE_ERROR"},
        {"3110", "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"},
        {"4000", "QNN_BACKEND_ERROR_CANNOT_INITIALIZE"},
        {"5000", "QNN_CONTEXT_ERROR_INVALID_ARGUMENT"},
        {"5001", "QNN_CONTEXT_ERROR_CTX_DOES_NOT_EXIST"},
        {"5002", "QNN_CONTEXT_ERROR_INVALID_HANDLE"},
        {"5003", "QNN_CONTEXT_ERROR_NOT_FINALIZED"},
        {"5004", "QNN_CONTEXT_ERROR_BINARY_VERSION"},
        {"5005", "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY"},
        {"5006", "QNN_CONTEXT_ERROR_GET_BINARY_SIZE_FAILED"},
        {"5007", "QNN_CONTEXT_ERROR_GET_BINARY_FAILED"},
        {"5008", "QNN_CONTEXT_ERROR_BINARY_CONFIGURATION"},
        {"5010", "QNN_CONTEXT_ERROR_INVALID_CONFIG"},
        {"5011", "QNN_CONTEXT_ERROR_BINARY_SUBOPTIMAL"},
        {"5012", "QNN_CONTEXT_ERROR_ABORTED"},
        {"6000", "QNN_GRAPH_ERROR_INVALID_ARGUMENT"},
        {"6001", "QNN_GRAPH_ERROR_INVALID_HANDLE"},
        {"6002", "QNN_GRAPH_ERROR_GRAPH_DOES_NOT_EXIST"},
        {"6003", "QNN_GRAPH_ERROR_INVALID_NAME"},
        {"6004", "QNN_GRAPH_ERROR_INVALID_TENSOR"},
        {"6005", "QNN_GRAPH_ERROR_INVALID_OP_CONFIG"},
        {"6006", "QNN_GRAPH_ERROR_SET_PROFILE"},
        {"6007", "QNN_GRAPH_ERROR_UNCONNECTED_NODE"},
        {"6020", "QNN_GRAPH_ERROR_CREATE_FAILED"},
        {"6021", "QNN_GRAPH_ERROR_OPTIMIZATION_FAILED"},
        {"6022", "QNN_GRAPH_ERROR_FINALIZE_FAILED"},
        {"6023", "QNN_GRAPH_ERROR_GRAPH_NOT_FINALIZED"},
        {"6024", "QNN_GRAPH_ERROR_GRAPH_FINALIZED"},
        {"6025", "QNN_GRAPH_ERROR_EXECUTION_ASYNC_FIFO_FULL"},
        {"6030", "QNN_GRAPH_ERROR_SIGNAL_IN_USE"},
        {"6031", "QNN_GRAPH_ERROR_ABORTED"},
        {"6032", "QNN_GRAPH_ERROR_PROFILE_IN_USE"},
        {"6033", "QNN_GRAPH_ERROR_TIMED_OUT"},
        {"6034", "QNN_GRAPH_ERROR_SUBGRAPH"},
        {"6035", "QNN_GRAPH_ERROR_DISABLED"},
        {"6036", "QNN_GRAPH_ERROR_DYNAMIC_TENSOR_SHAPE"},
        {"6038", "QNN_GRAPH_ERROR_EARLY_TERMINATION"},
        {"6039", "QNN_GRAPH_ERROR_INVALID_CONTEXT"},
        {"7000", "QNN_TENSOR_ERROR"},
        {"7001", "QNN_TENSOR_ERROR_INVALID_HANDLE"},
        {"7002", "QNN_TENSOR_ERROR_DOES_NOT_EXIST"},
        {"7004", "QNN_TENSOR_ERROR_INVALID_TENSOR_PARAM"},
        {"7005", "QNN_TENSOR_ERROR_UNSUPPORTED_TENSOR_PARAM"},
        {"8000", "QNN_MEM_ERROR_INVALID_ARGUMENT"},
        {"8001", "QNN_MEM_ERROR_INVALID_HANDLE"},
        {"8002", "QNN_MEM_ERROR_ALREADY_REGISTERED"},
        {"8003", "QNN_MEM_ERROR_MAPPING"},
        {"8004", "QNN_MEM_ERROR_INVALID_SHAPE"},
        {"8005", "QNN_MEM_ERROR_UNSUPPORTED_MEMTYPE"},
        {"9000", "QNN_SIGNAL_ERROR"},
        {"10000", "QNN_ERROR_ERROR"},
        {"11000", "QNN_LOG_ERROR"},
        {"12000", "QNN_PROFILE_ERROR"},
        {"13000", "QNN_PERF_ERROR"},
        {"14000", "QNN_DEVICE_ERROR_INVALID_HANDLE"},
        {"14001", "QNN_DEVICE_ERROR_INVALID_CONFIG"},
        {"14002", "QNN_DEVICE_ERROR_HARDWARE_UNAVAILABLE"},
        {"15000", "QNN_GLOBAL_CONFIG_ERROR"},
        {"30000", "QNN_SYSTEM_ERROR"},
        {"30002", "QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED"},
        {"30010", "QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY"},
        {"60000", "QNN_INTERFACE_ERROR"},
        {"0x138b", "QNN_CONTEXT_ERROR_NOT_FINALIZED"},
        {"0x7532", "QNN_SYSTEM_CONTEXT_ERROR_OPERATION_FAILED"},
        {"0x80000406", "AEE_EUNABLETOLOAD"},
        {"0x80000600", "AEE_ERPC"},
        {"0x8000040e", "AEE_EBADPARM"},
        {"0x8000042e", "AEE_EINTERRUPTED"},
        {"126", "NOT_EXECUTABLE"},
        {"127", "COMMAND_NOT_FOUND"},
        {"129", "SIGHUP"},
        {"137", "SIGKILL"},
        {"139", "SIGSEGV"},
        {"Failed to find available PD for contextId 1 with size estimate 4025634048, err: 1002",
         "qnn-no-pd"},
        {"deviceCreate failed: 14001", "QNN_DEVICE_ERROR_INVALID_CONFIG"},
        {"qnn_open failed, 0x80000406", "AEE_EUNABLETOLOAD"},
        {"qnn_open failed, 0x80000600", "AEE_ERPC"},
        {"libQnnHtpV75Skel.so: Skel not found", "dsp-skel"},
        {"dlopen failed: library \"libcdsprpc.so\" not found", "dsp-no-cdsprpc"},
        {"No Snapdragon SOC detected", "qnn-unknown-soc"},
        {"unknown soc_id 639", "qnn-unknown-soc"},
        {"requires 0x2400000 bytes of TCM, greater than 0x800000", "qnn-tcm"},
        {"Request feature vtcm size with value 8 unsupported", "qnn-vtcm"},
        {"failed to create QNN context from binary", "qnn-context-from-binary"},
        {"BQ is not supported", "qnn-block-quantization"},
        {"Duplicate Memory Handle", "qnn-duplicate-memory"},
        {"unsupported config option 2", "qnn-config-option"},
        {"PrepareLib isn't loaded", "qnn-prepare-lib"},
        {"remote_mmap64 failed", "dsp-smmu"},
        {"arm-smmu: smmu fault", "dsp-smmu"},
        {"avc: denied { read } for name=\"adsprpc-smd\"", "dsp-selinux"},
        {"avc: denied { open } for path=/vendor/fastrpc_shell_unsigned_3", "dsp-selinux"},
        {"sh: adb: command not found", "adb-missing"},
        {"error: no devices/emulators found", "adb-none"},
        {"error: more than one device/emulator", "adb-several"},
        {"error: device unauthorized.", "adb-unauthorized"},
        {"error: device offline", "adb-offline"},
        {"error: device still authorizing", "adb-authorizing"},
        {"R5CT60 recovery", "adb-recovery"},
        {"R5CT60 no permissions (user in plugdev group; are your udev rules wrong?)",
         "adb-no-permissions"},
        {"the device has no shell_v2", "adb-no-shell-v2"},
        {"error: closed", "adb-closed"},
        {"write: No space left on device", "adb-no-space"},
        {"/system/bin/sh: ./x: inaccessible or not found", "COMMAND_NOT_FOUND"},
        {"sh: ./x: can't execute: Permission denied", "NOT_EXECUTABLE"},
        {"error: \"x\": unexpected e_machine: 62", "NOT_EXECUTABLE"},
        {"error: \"x\": only position independent executables (PIE) are supported",
         "linker-refused"},
        {"dlopen failed: \"x.so\" has text relocations", "linker-refused"},
        {"Illegal instruction (core dumped)", "SIGILL"},
        {"Segmentation fault", "SIGSEGV"},
        {"[1] + Killed   bin/ferry", "SIGKILL"},
    };
    for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++)
        finds(listed[i][0], listed[i][1]);
}

static void what_is_no_error_is_left_alone(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        " ",
        "0",
        "0x",
        "-",
        "-0",
        "99999999999999999999",
        "0x123456789abcdef01",
        "65536",
        "-9999999999",
        "took 137 ms at 2026-11-21 10:30:05",
        "version 2.36.1",
        "a closed door in a line that is not of a bridge",
        "7f0012345678",
    };
    fy_explanation x[8];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (fy_explain(lines[i], x, 8, NULL) != 0)
            fail_msg("'%s' is %s", lines[i], x[0].name);
    }
}

static void a_typo_gets_the_nearest_name(void **state)
{
    (void)state;
    fy_explanation x[8];
    const char *near = NULL;
    assert_int_equal(fy_explain("qnn_contxt_error_binary_version", x, 8, &near), 0);
    assert_string_equal(near, "QNN_CONTEXT_ERROR_BINARY_VERSION");
    assert_int_equal(fy_explain("adb-unautorized", x, 8, &near), 0);
    assert_string_equal(near, "adb-unauthorized");
    assert_int_equal(fy_explain("123456789", x, 8, &near), 0);
    assert_null(near);
    char longest[3000];
    memset(longest, 'Q', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(fy_explain(longest, x, 8, &near), 0);
    assert_null(near);
}

static void answers_are_limited_and_apart(void **state)
{
    (void)state;
    fy_explanation x[2];
    assert_int_equal(fy_explain("err 1002 err 1002 err 0x3ea", x, 2, NULL), 1);
    assert_int_equal(fy_explain("err 1002 err 1003 err 1004", x, 2, NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_well_formed),
        cmocka_unit_test(no_fact_stands_twice),
        cmocka_unit_test(every_exit_status_of_ferry_has_a_row),
        cmocka_unit_test(every_row_is_found_by_all_it_has),
        cmocka_unit_test(numbers_come_in_many_forms),
        cmocka_unit_test(what_users_meet_is_known),
        cmocka_unit_test(what_is_no_error_is_left_alone),
        cmocka_unit_test(a_typo_gets_the_nearest_name),
        cmocka_unit_test(answers_are_limited_and_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
