from rldyno.start import main

main()
