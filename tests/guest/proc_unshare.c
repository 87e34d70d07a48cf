// unshare(2) of files and file-system information; namespaces as far as the rights go.
#include "guest.h"
int main(int argc, char **argv) {
    TRY(unshare(CLONE_FILES));
    TRY(unshare(CLONE_FS));
    TRY(unshare(0x8));
    long r = unshare(CLONE_NEWUTS);
    EXPECT(r == 0 || errno == EPERM);
    TRY(setns(0, 0));
    TRY(setns(99, 0));
    return wrong;
}
